"""What is shown of callbacks: whom they tell, and not how they prove it."""

from __future__ import annotations

import json

from celery_parrot.client import has_mask, without_secrets

SECRETS = ("whsec_c2VjcmV0", "Bearer 123", "hunter2", "T0KEN", "tgram://12:AB/34")


def test_of_callbacks_only_whom_they_tell_is_shown() -> None:
    callbacks = [
        {
            "type": "webhook",
            "url": "https://me:hunter2@hooks.example.com/in/T0KEN?token=T0KEN",
            "secret": "whsec_c2VjcmV0",
            "headers": {"Authorization": "Bearer 123"},
        },
        {"type": "notify", "url": ["tgram://12:AB/34"]},
        "audit",
    ]
    shown = without_secrets("failure_callbacks", callbacks)
    text = json.dumps(shown, ensure_ascii=False)
    assert not [secret for secret in SECRETS if secret in text]
    assert shown[0] == {"type": "webhook", "url": "https://hooks.example.com/…", "secret": "…", "headers": "…"}
    assert shown[2] == "audit"
    assert has_mask("failure_callbacks", shown)
    assert not has_mask("failure_callbacks", callbacks)


def test_other_fields_and_harmless_parts_are_whole() -> None:
    mail = {"recipients": ["a@example.com"], "subject": "$name"}
    assert without_secrets("send_result", mail) == mail
    assert without_secrets("kwargs", {"secret": 1}) == {"secret": 1}
    assert not has_mask("send_result", mail)
    assert not has_mask("kwargs", {"text": "…"})
