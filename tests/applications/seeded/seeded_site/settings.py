"""The smallest settings of Django; both applications find their views by it."""

SECRET_KEY = "tests"
ROOT_URLCONF = "seeded_site.urls"
ALLOWED_HOSTS = ["*"]
USE_TZ = True
