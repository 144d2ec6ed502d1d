"""An emulator of AWS on this machine, for the CDK's command line and boto3."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3

from oncekey_local.functions.environment import REGION
from oncekey_local.processes import clean_environment

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """A running emulator.

    Attributes:
        name: What a person calls it.
        url: Where it answers, for every service of AWS.
        account: The account that it plays.
        key: The access key, and the secret one, that it takes for somebody of that account.
        folder: A folder that ends with it, for whatever its users must write somewhere.
    """

    name: str
    url: str
    account: str
    key: str
    folder: Path

    def client(self, service: str) -> Any:
        """Boto3's client of a service there."""
        # Typed as anything: there is a type for each service, and the caller knows which it asks.
        return boto3.client(
            service,  # type: ignore[call-overload]
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.key,
        )

    def environment(self) -> dict[str, str]:
        """The variables of a process that finds its AWS here, and no other.

        Nothing of the developer's own AWS settings is in it: with them, a deployment meant for
        this machine could reach an account.
        """
        return clean_environment() | {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.key,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "HOME": str(self.folder),
        }
