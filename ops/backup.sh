#!/bin/sh
# Backs up the database of CARE_DATABASE_URL and then removes care-*.db and care-*.dump that are older:
# backup.sh FOLDER DAYS
# The address of a PostgreSQL database has no password: command lines are public. PGPASSFILE names its file.
set -eu
umask 077
folder=$1 days=$2
name=$folder/care-$(date -u +%Y%m%dT%H%M%SZ)

case $CARE_DATABASE_URL in
postgres*)
    trap 'rm -f "$name.dump.part"' EXIT
    pg_dump --format=custom --file="$name.dump.part" "$CARE_DATABASE_URL"
    pg_restore --list "$name.dump.part" > /dev/null
    mv "$name.dump.part" "$name.dump"
    ;;
*) care-gateway backup "$name.db" ;;
esac
care-gateway tombstones save "$folder/erased.txt"
find "$folder" -maxdepth 1 '(' -name 'care-*.db*' -o -name 'care-*.dump*' ')' -mtime "+$days" -delete
