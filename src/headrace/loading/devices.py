"""From host memory to an accelerator, while it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from headrace.errors import UnsupportedData, Where

__all__ = ["CudaStage", "jax_putter", "torch_device"]


class Staged(NamedTuple):
    """A batch on its way to a GPU."""

    batch: Any
    event: Any
    tensors: list[Any]


class CudaStage:
    """Copies tensors to a GPU from pinned memory, on a stream of its own: copies overlap with what the GPU computes.

    Args:
        torch: The module.
        device: A CUDA device.
    """

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch = torch
        self._device = device
        self._stream: Any = None

    def begin(self, go: Callable[[Any], Any], move: list[Any], batch: Any) -> Staged:
        """Start the copies of a batch: ``go`` converts it and leaves what it has moved in ``move``."""
        cuda = self._torch.cuda
        if self._stream is None:
            self._stream = cuda.Stream(self._device)
        with cuda.stream(self._stream):
            converted = go(batch)
            return Staged(converted, self._stream.record_event(), move)

    def copy(self, tensor: Any) -> Any:
        """A tensor's copy on the GPU, under way. The pinned memory is kept until it is there by the allocator it is from."""
        return tensor.pin_memory().to(self._device, non_blocking=True)

    def arrive(self, staged: Staged) -> Any:
        """The batch, for what the consumer computes from now on: that waits for the copies on the GPU, nothing waits here."""
        current = self._torch.cuda.current_stream(self._device)
        current.wait_event(staged.event)
        for tensor in staged.tensors:
            tensor.record_stream(current)  # Its memory was taken on the other stream, and is used on this one.
        return staged.batch


def torch_device(torch: Any, device: Any) -> Any:
    """A device that torch knows and this machine has.

    Raises:
        ValueError: torch has no device of this name.
        UnsupportedData: it is a GPU, and there is none that this build of torch can use.
    """
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be one that torch knows, such as 'cpu' or 'cuda:0', got {device!r}") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise UnsupportedData(
            Where(),
            expected="a GPU that torch can use",
            found="none (torch.cuda.is_available() is false)",
            hint="Leave device= out to get tensors in host memory.",
        )
    return found


def jax_putter(jax: Any, device: Any) -> Callable[[Any], Any]:
    """What puts an array where ``device`` says: a device, or a sharding.

    Of a sharding over the devices of several processes each process gives its own part of the batch.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(device, jax.sharding.Sharding) and not device.is_fully_addressable:
        return lambda array: jax.make_array_from_process_local_data(device, array)
    if device is not None and not isinstance(device, jax.Device | jax.sharding.Sharding):
        raise ValueError(
            f"device must be a jax.Device, such as jax.devices()[0], or a jax.sharding.Sharding, got {device!r}"
        )
    return lambda array: jax.device_put(array, device)
