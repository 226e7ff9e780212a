#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include "core/base/cursor.hpp"
#include "core/base/mapped_files.hpp"
#include "core/base/pool.hpp"
#include "core/base/spans.hpp"

/// nanobind, but for one class.
namespace nb {
using namespace nanobind;

/// Gives up the GIL as long as it lives. Where Python has ended meanwhile, its thread stays in here until the process
/// ends: Python before 3.14 ends a thread that asks for the GIL then by unwinding its stack, which C++ frames end by
/// aborting the process.
class gil_scoped_release {
  public:
    gil_scoped_release() noexcept : state_(PyEval_SaveThread()) {}
    ~gil_scoped_release() {
        try {
            PyEval_RestoreThread(state_);
        } catch (...) { // Not an exception of ours, and not to be left: the thread is being ended.
            for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
        }
    }
    gil_scoped_release(const gil_scoped_release&) = delete;
    gil_scoped_release& operator=(const gil_scoped_release&) = delete;

  private:
    PyThreadState* state_;
};

} // namespace nb

namespace headrace::bind {

/// A held Python buffer (mmap, bytes, memoryview, ndarray): the bytes stay valid until it dies.
class Buffer {
  public:
    /// Throws TypeError when `object` has no contiguous buffer.
    explicit Buffer(nb::handle object);
    ~Buffer();
    Buffer(Buffer&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})), mapped_(other.mapped_) {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    [[nodiscard]] Bytes bytes() const noexcept {
        return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
    }

    /// The mapped file that these bytes are of. Known where it was made in a guarded call, which then looks after it.
    [[nodiscard]] const MappedFile* mapped() const noexcept { return mapped_; }

  private:
    Py_buffer view_{};
    const MappedFile* mapped_ = nullptr;
};

using MappedFilesHeld = std::vector<const MappedFile*>;

/// Adds what is not there yet.
void add_files(MappedFilesHeld& to, const MappedFilesHeld& more);

/// Buffers that many calls look into: acquired once, because a thousand files each time cost more than the records do.
struct HeldBuffers {
    explicit HeldBuffers(nb::sequence objects);
    HeldBuffers(HeldBuffers&&) = default;
    HeldBuffers(const HeldBuffers&) = delete;
    HeldBuffers& operator=(const HeldBuffers&) = delete;
    ~HeldBuffers() = default;

    /// The mapped files that buffers `which` are of (nullptr: the first buffer), which the guard of this call then
    /// looks after.
    [[nodiscard]] MappedFilesHeld mapped(const std::int32_t* which, std::size_t count) const;

    std::vector<Buffer> buffers;
    std::vector<Bytes> bytes;
    std::vector<const MappedFile*> files; ///< What mapped file each is of, or nullptr.
    bool has_files = false;
};

/// The `Buffers` that `object` is, or one made of the sequence of buffers that it is.
[[nodiscard]] nb::object hold_buffers(nb::object object);

/// Whether somebody makes the records of a reader into bytes objects: then the next ones are decoded into such, and
/// need not be copied. For everybody else one block of memory from the pool is made sooner than many objects.
class BytesWanted {
  public:
    /// Says that they were. It holds for a few calls: for those of other threads, too, which are under way.
    void note() noexcept { left_ = for_calls; }

    /// Whether the records of one more call shall be.
    [[nodiscard]] bool take() noexcept {
        if (left_ <= 0) return false;
        return left_-- > 0; // Another thread may have taken the last one.
    }

  private:
    static constexpr int for_calls = 8;
    std::atomic<int> left_{0};
};

/// What Python holds of some records: the spans, and the parent (or the blocks) that keep their bytes alive.
struct HeldSpans {
    HeldSpans() = default;
    HeldSpans(HeldSpans&&) = default;
    HeldSpans(const HeldSpans&) = delete;
    HeldSpans& operator=(const HeldSpans&) = delete;
    ~HeldSpans() = default;

    Spans spans;
    std::vector<Pool::Block> blocks;
    nb::object parent; ///< The Buffers that these lie in, or the Spans that they are a part of.
    std::vector<nb::object>
        whole; ///< Of each payload the bytes object that it is the content of, where there is one. Empty: of none.
    nb::object wanted;      ///< The BytesWanted that is to know of `to_bytes`.
    MappedFilesHeld mapped; ///< Files that payloads are views of.
};

/// Chunks of a Riegeli file, in bind_riegeli.cpp.
struct HeldChunks;
[[nodiscard]] const MappedFile* mapped_of(const HeldChunks& chunks);

/// Where views of mapped files are not for users (HEADRACE_MAPPED_BYTES=0): a copy, if these bytes are of `file`. Else
/// nothing.
[[nodiscard]] nb::object copy_of_mapped(Bytes bytes, const MappedFile* file);

/// Throws the Python exception for a file that was cut off while `guard` was there, if one was.
void raise_if_lost(GuardedRead& guard, GuardedRead::Look look = GuardedRead::Look::everything);

/// Notes the mapped files that an argument of a call has bytes of. Those of buffers note themselves.
template <typename T> void touch_argument(GuardedRead& guard, const T& argument) {
    if constexpr (std::same_as<T, HeldSpans>) {
        guard.touch(argument.mapped);
    } else if constexpr (std::same_as<T, HeldChunks>) {
        guard.touch(mapped_of(argument));
    }
}

/// `function`, in a guard: where a mapped file is cut off while it reads, Python gets that error, and not what became
/// of it.
template <typename F, typename R, typename... A> auto guarded_as(F function, R (*)(A...)) {
    return [function](A... arguments) -> R {
        GuardedRead guard;
        (touch_argument(guard, arguments), ...);
        try {
            if constexpr (std::is_void_v<R>) {
                function(std::forward<A>(arguments)...);
                raise_if_lost(guard);
            } else {
                R result = function(std::forward<A>(arguments)...);
                // Every read of a span looks at the ends of its files.
                raise_if_lost(guard,
                              std::same_as<R, HeldSpans> ? GuardedRead::Look::pages : GuardedRead::Look::everything);
                return result;
            }
        } catch (...) {
            raise_if_lost(guard); // instead, as damaged bytes are only what follows from it
            throw;
        }
    };
}

template <typename F, typename R, typename... A> auto guarded_like(F function, R (F::*)(A...) const) {
    return guarded_as(function, static_cast<R (*)(A...)>(nullptr));
}

/// For functions that read bytes which Python holds: `module.def("name", guarded(&function))`.
template <typename R, typename... A> auto guarded(R (*function)(A...)) { return guarded_as(function, function); }
template <typename F> auto guarded(F function) { return guarded_like(function, &F::operator()); }

/// The pool that every batch column comes from.
[[nodiscard]] const std::shared_ptr<Pool>& batch_pool();

/// A NumPy array of `dtype` and `shape` over `block`; the block goes back to its pool when the last view dies.
[[nodiscard]] nb::object to_numpy(Pool::Block block, nb::dlpack::dtype dtype, std::initializer_list<std::size_t> shape);

using Indices = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Which buffer each of some records lies in.
using Which = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// The Python exception for a fault, not raised.
[[nodiscard]] nb::object to_python(const FormatError& error);

/// What every scan returns: the starts, and where the next record begins. Throws the fault it ended at, with the starts
/// as `starts`.
[[nodiscard]] nb::tuple scanned(const Scan& found);

void register_array_record(nb::module_& module);
void register_crc32c(nb::module_& module);
void register_csv(nb::module_& module);
void register_errors(nb::module_& module);
void register_files(nb::module_& module);
void register_gzip(nb::module_& module);
void register_jpeg(nb::module_& module);
void register_json(nb::module_& module);
void register_npy(nb::module_& module);
void register_permutation(nb::module_& module);
void register_png(nb::module_& module);
void register_pool(nb::module_& module);
void register_recordio(nb::module_& module);
void register_sagemaker_record(nb::module_& module);
void register_riegeli(nb::module_& module);
void register_riegeli_single(nb::module_& module);
void register_read(nb::module_& module);
void register_spans(nb::module_& module);
void register_tf_example(nb::module_& module);
void register_tfrecord(nb::module_& module);

} // namespace headrace::bind
