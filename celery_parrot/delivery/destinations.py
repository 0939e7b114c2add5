"""Where a webhook may go: public addresses, and what ``parrot_webhook_allow`` lists."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from celery_parrot.delivery.failures import NotDelivered

IP = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Sequence[str]]
"""Addresses of a host, as text. Raises OSError."""

# Addresses of IPv6 that a gateway turns into one of IPv4: the last 32 bits say which.
_NAT64: Final = ip_network("64:ff9b::/96")
_COMPATIBLE: Final = ip_network("::/96")


def resolve(host: str, port: int) -> Sequence[str]:
    """Every address of ``host``, by the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def is_public(address: IP) -> bool:
    """Whether anybody in the world could mean it: no private, loopback, link-local, shared, reserved or multicast
    one, nor an address of IPv6 that stands for such a one of IPv4."""
    if isinstance(address, IPv6Address):
        inner = _inside(address)
        if inner is not None:
            return is_public(inner)
        if address.is_site_local:
            return False
    return address.is_global and not (
        address.is_multicast
        or address.is_reserved
        or address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_unspecified
    )


def _inside(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or address in _COMPATIBLE:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


@dataclass(frozen=True, slots=True)
class AllowList:
    """:ivar hosts: names that may resolve to anything, in lower case.
    :ivar networks: addresses that are taken whoever they belong to.
    """

    hosts: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[str]) -> AllowList:
        """From host names, addresses and CIDRs. Raises ValueError naming the one that is neither."""
        hosts: set[str] = set()
        networks: list[IPv4Network | IPv6Network] = []
        for entry in (each.strip() for each in entries):
            try:
                networks.append(ip_network(entry))
            except ValueError:
                if not _is_host(entry):
                    raise ValueError(f"{entry!r} is neither a host name nor an address nor a CIDR") from None
                hosts.add(entry.lower().rstrip("."))
        return cls(frozenset(hosts), tuple(networks))

    def takes(self, host: str, address: IP) -> bool:
        """Whether a connection to this address, for this host, may be made."""
        if host.lower().rstrip(".") in self.hosts:
            return True
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        plain = address if mapped is None else mapped
        return any(plain in network for network in self.networks) or is_public(address)


def _is_host(text: str) -> bool:
    labels = text.rstrip(".").split(".")
    allowed = all(label and label.replace("-", "").replace("_", "").isalnum() for label in labels)
    return allowed and not labels[-1].isdigit()


def checked(host: str, port: int, allow: AllowList, lookup: Resolver) -> list[str]:
    """The addresses to connect to for ``host``. One that is refused refuses the host.

    :raises NotDelivered: for good, naming no more than the host; not for good where the name is not found.
    """
    try:
        found = lookup(host, port)
    except OSError as exc:
        raise NotDelivered(f"the name {host} is not found: {exc.strerror or exc}") from None
    except UnicodeError:
        raise NotDelivered(f"{host} is no host name", final=True) from None
    if not found:
        raise NotDelivered(f"the name {host} has no address")
    for text in found:
        try:
            address = ip_address(text)
        except ValueError:
            raise NotDelivered(f"{host} has an address that is none", final=True) from None
        if not allow.takes(host, address):
            raise NotDelivered(
                f"{host} is at {text}, which is not public; list the host or its network in parrot_webhook_allow",
                final=True,
            )
    return list(found)
