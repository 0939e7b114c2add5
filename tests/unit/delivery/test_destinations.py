"""Where a webhook may go: nowhere private, whatever a name resolves to and however an address is written."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

import pytest

from celery_parrot.delivery import AllowList, NotDelivered
from celery_parrot.delivery.destinations import checked, is_public

PRIVATE = [
    "127.0.0.1", "127.8.8.8", "169.254.169.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "100.64.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "239.1.1.1", "240.0.0.1", "192.0.2.1", "198.18.0.1",
    "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "ff02::1", "fec0::1", "2001:db8::1",
    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::127.0.0.1",
    "2002:7f00:1::", "2002:a9fe:a9fe::1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1",
    "2001:0:7f00:1::80ff:fffe",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:4700::6810:84e5", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_public_is_refused(address: str) -> None:
    """For good: it will not be public in ten minutes. One such address is enough, among others."""
    assert not is_public(ip_address(address))
    for found in ([address], ["8.8.8.8", address]):
        with pytest.raises(NotDelivered, match="not public; list the host or its network") as caught:
            checked("hooks.example", 443, AllowList(), lambda *_, found=found: found)
        assert caught.value.final


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_public_is_taken(address: str) -> None:
    assert checked("hooks.example", 443, AllowList(), lambda *_: [address]) == [address]


@pytest.mark.parametrize(
    ("entry", "host", "address"),
    [
        ("hooks.internal", "hooks.internal", "10.1.2.3"),
        ("Hooks.Internal.", "hooks.internal", "10.1.2.3"),
        ("10.1.0.0/16", "any.example", "10.1.2.3"),
        ("10.1.0.0/16", "any.example", "::ffff:10.1.2.3"),
        ("127.0.0.1", "localhost", "127.0.0.1"),
        ("fd00::/8", "any.example", "fd12::1"),
    ],
)
def test_what_is_listed_is_taken(entry: str, host: str, address: str) -> None:
    """That, and nothing beside it."""
    allow = AllowList.of([entry])
    assert checked(host, 80, allow, lambda *_: [address]) == [address]
    with pytest.raises(NotDelivered):
        checked("other.example", 80, allow, lambda *_: ["192.168.0.1"])


@pytest.mark.parametrize("entry", ["http://a.example", "10.0.0.0/33", "10.0.0.1/8", "1.2.3.4.5", "", "a b"])
def test_what_is_no_host_and_no_network_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="neither a host name nor an address nor a CIDR"):
        AllowList.of([entry])


def test_a_name_that_is_not_found_may_be_found_later() -> None:
    def resolve(host: str, port: int) -> Sequence[str]:
        raise OSError(2, "Name or service not known")

    with pytest.raises(NotDelivered, match=r"hooks\.example is not found") as caught:
        checked("hooks.example", 443, AllowList(), resolve)
    assert not caught.value.final
