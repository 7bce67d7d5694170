#!/bin/sh
# Makes the service's role and its database in a new volume, by the image's superuser `postgres`.
set -e # also of the script of the image, which reads this file
psql --no-psqlrc --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname=postgres <<'SQL'
\getenv password CARE_DATABASE_PASSWORD
CREATE ROLE care LOGIN PASSWORD :'password';
CREATE DATABASE care OWNER care ENCODING 'UTF8' TEMPLATE template0;
REVOKE CONNECT, TEMPORARY ON DATABASE care FROM PUBLIC;
SQL
