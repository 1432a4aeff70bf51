"""The smallest settings of Django."""

SECRET_KEY = "tests"
ROOT_URLCONF = "site_of_tests.urls"
ALLOWED_HOSTS = ["*"]
USE_TZ = True
