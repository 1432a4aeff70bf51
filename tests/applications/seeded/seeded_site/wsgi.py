"""Django's WSGI module."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seeded_site.settings")
application = get_wsgi_application()
