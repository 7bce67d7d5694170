"""The bill of materials of the wheel, in CycloneDX: the locked packages that the service needs, and the npm
packages in the built pages. The same files give the same bytes."""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from supply.lock import LockedPackage, names_of_groups, read_groups, read_lock, select

NOT_NEEDED = ("dev", "build")


def write_bill(name: str, version: str, project: str, lock: str, npm_lock: str | None, moment: int) -> str:
    """`moment` is the time of the build in seconds since 1970."""
    service = Component(name=name, version=version, type=ComponentType.APPLICATION, bom_ref=name)
    optional = set(read_groups(project)) - {"run", *NOT_NEEDED}
    required = {one.name for one in packages(project, lock, ["run"])}
    needed = packages(project, lock, ["run", *sorted(optional)])
    components = {one.name: component_of(one, one.name in required) for one in needed}
    pages = list(components_of_pages(npm_lock)) if npm_lock else []
    serial = uuid5(NAMESPACE_URL, "\n".join([name, version, project, lock, npm_lock or ""]))
    bom = Bom(serial_number=serial, components=[*components.values(), *pages])
    bom.metadata.component = service
    bom.metadata.timestamp = datetime.fromtimestamp(moment, UTC)
    direct = names_of_groups(project, ["run", *optional])
    bom.register_dependency(service, [*(components[each] for each in sorted(direct)), *pages])
    for one in needed:
        users = sorted(one.required_by & components.keys())
        for user in users:
            bom.register_dependency(components[user], [components[one.name]])
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def packages(project: str, lock: str, groups: Iterable[str]) -> list[LockedPackage]:
    return read_lock(select(lock, names_of_groups(project, groups)))


def component_of(package: LockedPackage, is_required: bool) -> Component:
    """A package of an extra or of some platforms is optional."""
    is_optional = bool(package.marker) or not is_required
    url = PackageURL("pypi", name=package.name, version=package.version)
    return Component(
        name=package.name,
        version=package.version,
        purl=url,
        bom_ref=url.to_string(),
        scope=ComponentScope.OPTIONAL if is_optional else ComponentScope.REQUIRED,
    )


def components_of_pages(npm_lock: str) -> Iterator[Component]:
    """The packages that npm installs for the browser; those for the build alone are left out."""
    found: dict[str, dict[str, Any]] = json.loads(npm_lock)["packages"]
    for path, package in sorted(found.items()):
        if not path or package.get("dev") or package.get("optional"):
            continue
        space, _, name = path.rpartition("node_modules/")[2].rpartition("/")
        url = PackageURL("npm", namespace=space or None, name=name, version=package["version"])
        yield Component(
            group=space or None, name=name, version=package["version"], purl=url, bom_ref=path or name
        )
