"""Django's ASGI module."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seeded_site.settings")
application = get_asgi_application()
