"""The audit's modules in one archive, for executors on other machines."""

import atexit
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES: Final = ("protocol", "spark_jobs")
"""The packages that executors import. Packing them needs nothing but Python."""

_SUFFIXES: Final = (".py", ".jinja", ".css")
"""Modules, and the report's template and style, for a driver that runs from an archive."""


def pack(path: Path) -> None:
    """Write the archive, in the form that ``spark-submit --py-files`` takes."""
    above = __name__.split(".")[:-2]  # "tidegate" in a wheel
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name in above:
            file.write(top() / name / "__init__.py", f"{name}/__init__.py")
        for package in _PACKAGES:
            for module in sorted(top().joinpath(*above, package).rglob("*")):
                if module.suffix in _SUFFIXES:
                    file.write(module, module.relative_to(top()).as_posix())


def shipped(spark: "SparkSession") -> "SparkSession":
    """Send the modules to a session's executors, unless the driver itself runs from an archive."""
    if top().is_dir():
        folder = tempfile.mkdtemp(prefix="tidegate-modules-")
        # Executors fetch the archive from this folder whenever they start.
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = Path(folder, "tidegate-modules.zip")
        pack(path)
        spark.addArtifacts(str(path), pyfile=True)
    return spark


def top() -> Path:
    """The directory, or the archive, from which these modules are imported."""
    return Path(__file__).resolve().parents[__name__.count(".")]
