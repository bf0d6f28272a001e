#!/bin/sh
# As people start it, with a user to log in as: ann, whose password is harbour.
set -e
export PYTHONPATH=site-packages DJANGO_SUPERUSER_PASSWORD=harbour
if ! [ -e db.sqlite3 ]; then
  python3 manage.py migrate --verbosity 0
  python3 manage.py createsuperuser --noinput --username ann --email ann@example.com
fi
exec python3 manage.py runserver
