"""The exceptions that scripts raise and catch."""

from __future__ import annotations

from typing import Any

__all__ = [
    "BaseInferenceToolkitError",
    "ChannelDoesNotExistError",
    "ChannelDoesNotExistException",
    "ClientError",
    "ExecuteUserScriptError",
    "GenericInferenceToolkitError",
    "ImportModuleError",
    "InstallModuleError",
    "InstallRequirementsError",
    "UnsupportedFormatError",
]


class ClientError(Exception):
    """The user's code failed, not the framework."""


class CalledProcessError(ClientError):
    """A command ended with another exit status than 0.

    Args:
        cmd: The command, as one string.
        return_code: Its exit status.
        output: The last lines of its standard error.
        info: What else is known.
    """

    def __init__(self, cmd: str, return_code: Any = None, output: Any = None, info: str | None = None) -> None:
        self.cmd = cmd
        self.return_code: str = str(return_code)
        self.output = output
        self.extra_info = info
        super().__init__()

    def __str__(self) -> str:
        output = self.output.decode("utf-8", "replace") if isinstance(self.output, bytes) else self.output or ""
        extra = "" if self.extra_info is None else f'\nExtraInfo "{self.extra_info}"'
        name = type(self).__name__
        return f'{name}:\nExitCode {self.return_code}\nErrorMessage "{output}"{extra}\nCommand "{self.cmd}"'


class InstallModuleError(CalledProcessError):
    """A package of the user could not be installed."""


class InstallRequirementsError(CalledProcessError):
    """``requirements.txt`` could not be installed."""


class ExecuteUserScriptError(CalledProcessError):
    """The user's script failed."""


class ImportModuleError(ClientError):
    """The user's module could not be imported."""


class ChannelDoesNotExistError(Exception):
    """The channel does not exist."""

    def __init__(self, channel_name: str) -> None:
        super().__init__(f"Channel {channel_name} is not a valid channel")


ChannelDoesNotExistException = ChannelDoesNotExistError  # its name in sagemaker_containers


class UnsupportedFormatError(Exception):
    """A content type that the framework cannot read or write."""

    def __init__(self, content_type: Any, **kwargs: Any) -> None:
        # The two lines of advice keep their leading spaces in the original; logs are searched for this text.
        self.message: str
        self.message = self._message = (
            f"Content type {content_type} is not supported by this framework.\n\n"
            "            Please implement input_fn to to deserialize the request data or an output_fn to\n"
            "            serialize the response. For more information, see the SageMaker Python SDK README."
        )
        super().__init__(self.message, **kwargs)


class BaseInferenceToolkitError(Exception):
    """Raised by a script to choose the HTTP status of the answer.

    Args:
        status_code: The HTTP status.
        message: What is wrong.
        phrase: The reason phrase of the answer.
    """

    def __init__(self, status_code: int, message: str, phrase: str) -> None:
        self.status_code = status_code
        self.message = message
        self.phrase = phrase
        super().__init__(status_code, message, phrase)


class GenericInferenceToolkitError(BaseInferenceToolkitError):
    """The same, with a message to fall back on."""

    def __init__(self, status_code: int, message: str | None = None, phrase: str | None = None) -> None:
        message = message or "Invalid Request"
        super().__init__(status_code, message, phrase or message)
