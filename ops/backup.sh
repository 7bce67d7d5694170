#!/bin/sh
# Backs up the database of CARE_DATABASE_URL and then removes older backups: backup.sh FOLDER DAYS
# The address of a PostgreSQL database has no password: command lines are public. PGPASSFILE names its file.
set -eu
umask 077
folder=$1 days=$2
name=$folder/care-$(date -u +%Y%m%dT%H%M%SZ)

case $CARE_DATABASE_URL in
postgres*)
    trap 'rm -f "$name.part"' EXIT
    pg_dump --format=custom --file="$name.part" "$CARE_DATABASE_URL"
    pg_restore --list "$name.part" > /dev/null
    mv "$name.part" "$name.dump"
    ;;
*) care-gateway backup "$name.db" ;;
esac
care-gateway tombstones save "$folder/erased.txt"
find "$folder" -maxdepth 1 -name 'care-*Z.d[bu]*' -mtime "+$days" -delete
