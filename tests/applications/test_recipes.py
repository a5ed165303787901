"""The page of recipes and the programs that run them belong together."""

from tests.applications.recipes import recipes
from tests.applications.runtimes import INSIDE


def test_each_framework_has_one_recipe_and_a_program() -> None:
    found = recipes()
    frameworks = {recipe.framework for recipe in found}
    assert frameworks == {path.name.partition("_app.")[0] for path in INSIDE.glob("*_app.*")}
    assert sorted(recipe.framework for recipe in found if recipe.is_recommended) == sorted(
        frameworks
    )


def test_a_recipe_is_what_stands_on_the_page() -> None:
    (lines,) = [
        recipe.lines
        for recipe in recipes()
        if recipe.framework == "sqlalchemy" and recipe.is_recommended
    ]
    assert 'isolation_level="AUTOCOMMIT"' in lines
