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

/// nanobind, with one class replaced.
namespace nb {
using namespace nanobind;

/// Releases the GIL during its lifetime. If Python has finalised in the meantime, the thread stays here until the
/// process ends: Python before 3.14 unwinds a thread that requests the GIL then, and C++ frames turn that into an
/// abort.
class gil_scoped_release {
  public:
    gil_scoped_release() noexcept : state_(PyEval_SaveThread()) {}
    ~gil_scoped_release() {
        try {
            PyEval_RestoreThread(state_);
        } catch (...) { // Not a C++ exception: the thread is being terminated, and this must not return.
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

/// Releases the GIL during its lifetime if there are many numbers to look at. For few, waiting to get it back takes
/// longer than the work: another thread that waits for it gets it at once.
class ReleaseForMany {
  public:
    explicit ReleaseForMany(std::size_t numbers) {
        constexpr std::size_t few = 4096; // They take microseconds.
        if (numbers > few) release_.emplace();
    }

  private:
    std::optional<nb::gil_scoped_release> release_;
};

/// A held Python buffer (mmap, bytes, memoryview, ndarray). Its bytes stay valid during its lifetime.
class Buffer {
  public:
    /// Throws TypeError if `object` has no contiguous buffer.
    explicit Buffer(nb::handle object);
    ~Buffer();
    Buffer(Buffer&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})), mapped_(other.mapped_) {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    [[nodiscard]] Bytes bytes() const noexcept {
        return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
    }

    /// The mapped file behind these bytes. Known if the buffer was made in a guarded call, whose guard then covers the
    /// file.
    [[nodiscard]] const MappedFile* mapped() const noexcept { return mapped_; }

  private:
    Py_buffer view_{};
    const MappedFile* mapped_ = nullptr;
};

using MappedFilesHeld = std::vector<const MappedFile*>;

/// Adds files that are not in the list yet.
void add_files(MappedFilesHeld& to, const MappedFilesHeld& more);

/// Buffers shared by many calls. Acquiring a thousand files per call would cost more than reading the records.
struct HeldBuffers {
    explicit HeldBuffers(nb::sequence objects);
    HeldBuffers(HeldBuffers&&) = default;
    HeldBuffers(const HeldBuffers&) = delete;
    HeldBuffers& operator=(const HeldBuffers&) = delete;
    ~HeldBuffers() = default;

    /// One buffer that holds all of these, and where each begins in it, if they are whole mapped files on adjacent
    /// pages, in any order. Nothing if they are not.
    [[nodiscard]] static std::optional<std::pair<HeldBuffers, std::vector<std::int64_t>>> join(nb::handle parts);

    /// The mapped files of buffers `which` (nullptr: the first buffer), now covered by the guard of this call.
    [[nodiscard]] MappedFilesHeld mapped(const std::int32_t* which, std::size_t count) const;

    std::vector<Buffer> buffers;
    std::vector<Bytes> bytes;
    std::vector<const MappedFile*> files; ///< The mapped file of each buffer, or nullptr. All files, if joined.
    bool has_files = false;
    nb::object joined; ///< The buffers that this one holds, if it was joined.

  private:
    HeldBuffers() = default;
};

/// Returns `object` if it is a `Buffers`, else makes one from a sequence of buffers.
[[nodiscard]] nb::object hold_buffers(nb::object object);

/// Tracks whether callers turn a reader's records into bytes objects. If so, the next records are decoded directly into
/// such objects, which saves a copy. Otherwise one block from the pool is faster than many objects.
class BytesWanted {
  public:
    /// Notes that they do. Applies to the next few calls, including those of other threads in progress.
    void note() noexcept { left_ = for_calls; }

    /// Whether to make bytes objects in this call.
    [[nodiscard]] bool take() noexcept {
        if (left_ <= 0) return false;
        return left_-- > 0; // Another thread may have taken the last one.
    }

  private:
    static constexpr int for_calls = 8;
    std::atomic<int> left_{0};
};

/// Spans held by Python, with the parent (or the blocks) that keep their bytes alive.
struct HeldSpans {
    HeldSpans() = default;
    HeldSpans(HeldSpans&&) = default;
    HeldSpans(const HeldSpans&) = delete;
    HeldSpans& operator=(const HeldSpans&) = delete;
    ~HeldSpans() = default;

    Spans spans;
    std::vector<Pool::Block> blocks;
    nb::object parent;                             ///< The Buffers or Spans that contain these spans.
    std::vector<std::shared_ptr<const void>> kept; ///< Decoded chunks that contain them.
    std::vector<nb::object>
        whole;              ///< The bytes object behind each payload, if there is one. May be empty: none at all.
    nb::object wanted;      ///< The BytesWanted to notify of `to_bytes`.
    MappedFilesHeld mapped; ///< Files that payloads are views of.
};

/// Call it before making bytes objects of `total` bytes together. The C library returns free memory at the end of the
/// heap to the system until the process has once freed a block of that size (mallopt(3), M_TRIM_THRESHOLD). The objects
/// of every batch would then be in new pages, and page faults take longer than copying.
void keep_heap(std::size_t total) noexcept;

/// Chunks of a Riegeli file, in riegeli/chunks.cpp.
struct HeldChunks;
[[nodiscard]] const MappedFile* mapped_of(const HeldChunks& chunks);
/// The records of a `Chunks`, with its file in the guard of this call. Throws TypeError for another object.
[[nodiscard]] std::span<const Bytes> records_of(nb::handle chunks);

/// A copy of these bytes if they are from `file` and users must not get views of mapped files
/// (HEADRACE_MAPPED_BYTES=0). Else nothing.
[[nodiscard]] nb::object copy_of_mapped(Bytes bytes, const MappedFile* file);

/// Throws the Python exception for a file that was truncated under `guard`, if any.
void raise_if_lost(GuardedRead& guard, GuardedRead::Look look = GuardedRead::Look::everything);

/// Registers the mapped files behind an argument of a call. Buffers register themselves.
template <typename T> void touch_argument(GuardedRead& guard, const T& argument) {
    if constexpr (std::same_as<T, HeldSpans>) {
        // The last byte of a file takes about as long to look at as the checksums behind this many payloads. That of a
        // single file stays in the cache.
        constexpr std::size_t as_dear = 128;
        const std::size_t files = argument.mapped.size(), payloads = argument.spans.payloads.size();
        if (argument.spans.seal == Seal::tfrecord && files > 1 && payloads / as_dear < files)
            guard.touch_stretches(argument.mapped, argument.spans.payloads);
        else guard.touch(argument.mapped);
    } else if constexpr (std::same_as<T, HeldChunks>) {
        guard.touch(mapped_of(argument));
    }
}

/// Wraps `function` in a guard. If a mapped file is truncated while it reads, Python gets that error instead of its
/// consequences.
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
                // Every read of a span checks the ends of its files.
                raise_if_lost(guard,
                              std::same_as<R, HeldSpans> ? GuardedRead::Look::pages : GuardedRead::Look::everything);
                return result;
            }
        } catch (...) {
            raise_if_lost(guard); // Takes precedence: damaged bytes are only a consequence.
            throw;
        }
    };
}

template <typename F, typename R, typename... A> auto guarded_like(F function, R (F::*)(A...) const) {
    return guarded_as(function, static_cast<R (*)(A...)>(nullptr));
}

/// For functions that read bytes held by Python: `module.def("name", guarded(&function))`.
template <typename R, typename... A> auto guarded(R (*function)(A...)) { return guarded_as(function, function); }
template <typename F> auto guarded(F function) { return guarded_like(function, &F::operator()); }

/// The pool of every batch column.
[[nodiscard]] const std::shared_ptr<Pool>& batch_pool();

/// A block in the hands of Python, as a buffer.
struct HeldBlock {
    Pool::Block block;
    std::size_t size = 0;
};

/// numpy.ndarray.
[[nodiscard]] nb::handle array_class();

/// A NumPy array of `dtype` and `shape` over `block`; the block goes back to its pool when the last view dies.
[[nodiscard]] nb::object to_numpy(Pool::Block block, nb::dlpack::dtype dtype, std::initializer_list<std::size_t> shape);

/// `count` rows of `row_bytes` bytes each, which `row_shape` and the NumPy dtype `dtype` describe.
[[nodiscard]] nb::object to_numpy(Pool::Block block, std::size_t count, std::size_t row_bytes, nb::tuple row_shape,
                                  nb::handle dtype);

using Indices = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// The buffer of each record.
using Which = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Makes the Python exception for a fault, without raising it.
[[nodiscard]] nb::object to_python(const FormatError& error);

/// The result of every scan: the starts, and where the next record begins. Throws the fault that ended it, if any, with
/// the starts as `starts`.
[[nodiscard]] nb::tuple scanned(const Scan& found);

/// The positions of the marks that are set.
[[nodiscard]] nb::list positions_of(const std::vector<std::uint8_t>& marks);

void register_block(nb::module_& module);
void register_array_record(nb::module_& module);
void register_crc32c(nb::module_& module);
void register_csv(nb::module_& module);
void register_errors(nb::module_& module);
void register_files(nb::module_& module);
void register_gzip(nb::module_& module);
void register_jpeg(nb::module_& module);
void register_json(nb::module_& module);
void register_npy(nb::module_& module);
void register_parquet(nb::module_& module);
void register_permutation(nb::module_& module);
void register_png(nb::module_& module);
void register_pool(nb::module_& module);
void register_shared_loops(nb::module_& module);
void register_recordio(nb::module_& module);
void register_tar(nb::module_& module);
void register_sagemaker_record(nb::module_& module);
void register_riegeli(nb::module_& module);
void register_riegeli_single(nb::module_& module);
void register_chunk_store(nb::module_& module);
void register_read(nb::module_& module);
void register_spans(nb::module_& module);
void register_copies(nb::module_& module);
void register_strings(nb::module_& module);
void register_cut_batch(nb::module_& module);
void register_tf_example(nb::module_& module);
void register_tfrecord(nb::module_& module);
void register_views(nb::module_& module);

} // namespace headrace::bind
