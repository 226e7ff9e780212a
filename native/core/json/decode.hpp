#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/pool.hpp"
#include "core/base/spans.hpp"
#include "core/text/strings.hpp"

/// Lines of JSON as columns. Only plain lines are decoded; another reader takes all others, and reports all damage.
namespace headrace::json {

enum class Kind : std::uint8_t { int64 = 1, uint64, float64, boolean, text };

/// A key of the lines' objects, and the type of its values.
struct Spec {
    std::string key;
    Kind kind = Kind::text;
    bool is_list = false;
    std::int64_t least = INT64_MIN; ///< int64: the range of values.
    std::uint64_t most = INT64_MAX; ///< int64 and uint64.
    bool exact = false;             ///< float64: a whole number must not be rounded.
    bool may_miss = false;          ///< float64: a missing value is NaN. Lists: a missing list is empty.
};

struct Column {
    Pool::Block numbers; ///< int64, uint64 or float64; a boolean takes one byte.
    StringBlocks texts;
    Pool::Block offsets;    ///< Lists: int64, one more than there are lines.
    std::size_t values = 0; ///< In all lines.
};

/// Decodes lines into columns. Immutable: one decoder serves many threads.
class Decoder {
  public:
    /// Throws FormatError{range} if two specs have the same key.
    explicit Decoder(std::vector<Spec> specs);
    Decoder(Decoder&&) = default;
    Decoder(const Decoder&) = delete;
    Decoder& operator=(Decoder&&) = delete;
    Decoder& operator=(const Decoder&) = delete;
    ~Decoder() = default;

    [[nodiscard]] const std::vector<Spec>& specs() const noexcept { return specs_; }

    /// The columns; nothing if any line is not plain. A plain line is one object in JSON (RFC 8259) without line ends
    /// inside, with each wanted key at most once and without escapes in keys, and every value as its spec says: null or
    /// missing only where it may be, whole numbers in digits only, finite floats that are normal or zero, text in UTF-8
    /// without NUL or lone surrogates, and nesting of other values of at most `most_depth`.
    [[nodiscard]] std::optional<std::vector<Column>> decode(const std::vector<Bytes>& lines,
                                                            const std::shared_ptr<Pool>& pool) const;

    static constexpr unsigned most_depth = 64;

  private:
    friend class Run;

    std::vector<Spec> specs_;
    std::unordered_map<std::string_view, std::size_t> numbers_; ///< The spec of each key.
};

} // namespace headrace::json
