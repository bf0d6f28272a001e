"""A whole Django project in one file: a login form with Django's own checks of Host, Origin and CSRF."""

import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line

settings.configure(
    BASE_DIR=os.path.dirname(os.path.abspath(__file__)),
    # What `startproject` writes: without names of its own, DEBUG allows localhost and nothing else.
    DEBUG=True,
    ALLOWED_HOSTS=[],
    SECRET_KEY="only for tests",
    ROOT_URLCONF="site_urls",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
    ],
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "DIRS": ["templates"],
            "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
        }
    ],
    LOGIN_REDIRECT_URL="/",
    USE_TZ=True,
)

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
