"""Settings for Django's own tests, and their runner, which records each test."""

from __future__ import annotations

import os
import unittest
from typing import Any

from django.test.runner import DiscoverRunner
from tidegate_recording import record

_ADDRESS = {
    "ENGINE": "django.db.backends.mysql",
    "HOST": os.environ["TIDEGATE_HOST"],
    "PORT": os.environ["TIDEGATE_PORT"],
    "USER": os.environ["TIDEGATE_USER"],
    "PASSWORD": os.environ["TIDEGATE_PASSWORD"],
    "TEST": {"CHARSET": "utf8mb4"},
}
DATABASES = {"default": {**_ADDRESS, "NAME": "django"}, "other": {**_ADDRESS, "NAME": "other"}}
SECRET_KEY = "django_tests_secret_key"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "tidegate_django.Runner"


class Result(unittest.TextTestResult):
    """Records what unittest tells of each test."""

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802 theirs
        super().addSuccess(test)
        record(test.id(), "passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802 theirs
        super().addSkip(test, reason)
        record(test.id(), "skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802 theirs
        super().addExpectedFailure(test, err)
        record(test.id(), "skipped", "an expected failure")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802 theirs
        super().addUnexpectedSuccess(test)
        record(test.id(), "passed")

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802 theirs
        super().addFailure(test, err)
        record(test.id(), "failed", self.failures[-1][1])

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802 theirs
        super().addError(test, err)
        record(test.id(), "failed", self.errors[-1][1])

    def addSubTest(  # noqa: N802 theirs
        self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any
    ) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            record(test.id(), "failed", (self.failures + self.errors)[-1][1])


class Runner(DiscoverRunner):
    """Django's runner with that result."""

    def get_resultclass(self) -> type[Result]:
        return Result
