"""Settings of Django's own test suite, and a runner that writes down what became of each test. The environment says which server:
CORUN_HOST, CORUN_PORT, CORUN_USER; CORUN_OUTCOMES is the file, a JSON object a line; CORUN_TEST_SECONDS, how long one test may take."""

import json
import os
import signal
import unittest

DATABASES = {
    alias: {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": os.environ["CORUN_USER"],
        "HOST": os.environ["CORUN_HOST"],
        "PORT": os.environ["CORUN_PORT"],
        "TEST": {"NAME": name},
    }
    for alias, name in (("default", "django"), ("other", "other"))
}
SECRET_KEY = "django_tests_secret_key"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "django_settings.Runner"

SECONDS = int(os.environ.get("CORUN_TEST_SECONDS", "60"))


class TooLong(Exception):
    pass


def too_long(*_):
    raise TooLong(f"took more than {SECONDS} seconds")


class Outcomes(unittest.TextTestResult):
    """The worst of what a test and its subtests came to: error, failed, skipped, passed."""

    RANK = ["passed", "skipped", "failed", "error"]

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.kept = open(os.environ["CORUN_OUTCOMES"], "a", buffering=1)
        self.now = ("passed", "")

    def startTest(self, test):
        super().startTest(test)
        self.now = ("passed", "")
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(SECONDS)

    def stopTest(self, test):
        signal.alarm(0)
        self.write(test.id(), *self.now)
        super().stopTest(test)

    def write(self, name, outcome, why):
        self.kept.write(json.dumps({"test": name, "outcome": outcome, "why": why}) + "\n")

    def came_to(self, test, outcome, why):
        # setUpClass and setUpModule fail without a test.
        if not hasattr(test, "_testMethodName") and not hasattr(test, "test_case"):
            self.write(test.id(), outcome, why)
        elif self.RANK.index(outcome) > self.RANK.index(self.now[0]):
            self.now = (outcome, why)

    def reason(self, error):
        return f"{error[0].__name__}: {error[1]}".strip()

    def addError(self, test, error):
        super().addError(test, error)
        self.came_to(test, "error", self.reason(error))

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.came_to(test, "failed", self.reason(error))

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            kind = "failed" if issubclass(error[0], test.failureException) else "error"
            self.came_to(test, kind, self.reason(error))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.came_to(test, "skipped", reason)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.came_to(test, "failed", "passed, which the test does not expect")


def runner():
    from django.test.runner import DiscoverRunner

    class Runner(DiscoverRunner):
        def get_resultclass(self):
            return Outcomes

    return Runner


def __getattr__(name):
    if name == "Runner":
        return runner()
    raise AttributeError(name)
