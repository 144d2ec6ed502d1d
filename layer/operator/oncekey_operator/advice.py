"""What a person can do about an error that only another command line, or other rights, end."""

from __future__ import annotations

_NO_TABLE = "correct the name, the Region or the profile; `oncekey doctor` says what is there"
_NO_RIGHT = "use a role that may do it; `oncekey doctor` says what these credentials may not do"
_NO_CREDENTIALS = "say --profile NAME, or log in as for the AWS CLI"
_WRONG_SIGNATURE = "correct the secret of the credentials, or this machine's clock"
# By the service's code, or the name of botocore's error. A later try of the same does not help.
_ADVICE = {
    "AccessDenied": _NO_RIGHT,
    "AccessDeniedException": _NO_RIGHT,
    "AWS.SimpleQueueService.NonExistentQueue": _NO_TABLE,
    "ExpiredToken": _NO_CREDENTIALS,
    "ExpiredTokenException": _NO_CREDENTIALS,
    "InvalidAccessKeyId": _NO_CREDENTIALS,
    "InvalidClientTokenId": _NO_CREDENTIALS,
    "InvalidSignatureException": _WRONG_SIGNATURE,
    "LoginRefreshRequired": _NO_CREDENTIALS,
    "LoginTokenLoadError": _NO_CREDENTIALS,
    "NoCredentialsError": _NO_CREDENTIALS,
    "NoRegionError": "say --region NAME",
    # A name that is empty, or longer than names are.
    "ParamValidationError": _NO_TABLE,
    "PartialCredentialsError": _NO_CREDENTIALS,
    "RequestExpired": _WRONG_SIGNATURE,
    "RequestTimeTooSkewed": _WRONG_SIGNATURE,
    "ResourceNotFoundException": _NO_TABLE,
    "SSOTokenLoadError": _NO_CREDENTIALS,
    "SignatureDoesNotMatch": _WRONG_SIGNATURE,
    "TokenRetrievalError": _NO_CREDENTIALS,
    "UnauthorizedSSOTokenError": _NO_CREDENTIALS,
    "UnrecognizedClientException": _NO_CREDENTIALS,
}


def advice_about(error: Exception) -> str:
    """What to do about an error of AWS; empty if a later try of the same may succeed."""
    from botocore.exceptions import BotoCoreError, ClientError

    from oncekey.errors import StoreError

    if isinstance(error, StoreError):
        is_wrong = not error.transient and not error.is_mistake
        return "`oncekey doctor` says what is there" if is_wrong else ""
    if isinstance(error, ClientError):
        return _ADVICE.get(error.response["Error"]["Code"], "")
    return _ADVICE.get(type(error).__name__, "") if isinstance(error, BotoCoreError) else ""
