"""Telling people and programs what became of a fire: callbacks, the mail with the result, the alert."""

from celery_parrot.delivery.deliver import Job, Retries, deliver
from celery_parrot.delivery.destinations import AllowList
from celery_parrot.delivery.failures import NotDelivered
from celery_parrot.delivery.fields import addresses
from celery_parrot.delivery.mailserver import MailServer
from celery_parrot.delivery.means import Means, OwnCallback
from celery_parrot.delivery.specs import FIELDS, check_all, check_callbacks, check_send_result

__all__ = [
    "FIELDS",
    "AllowList",
    "Job",
    "MailServer",
    "Means",
    "NotDelivered",
    "OwnCallback",
    "Retries",
    "addresses",
    "check_all",
    "check_callbacks",
    "check_send_result",
    "deliver",
]
