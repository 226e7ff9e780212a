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

/// A key of the lines' objects, or of objects in them, and the type of its values.
struct Spec {
    std::vector<std::string> path;  ///< The keys that lead there, outermost first.
    std::vector<std::size_t> lists; ///< Which of them hold lists of objects, which the next key is of.
    Kind kind = Kind::text;
    std::size_t depth = 0;          ///< Of lists in lists, lists of objects included; 0: no list.
    std::int64_t least = INT64_MIN; ///< int64: the range of values.
    std::uint64_t most = INT64_MAX; ///< int64 and uint64.
    bool exact = false;             ///< float64: a whole number must not be rounded.
    bool may_miss = false;          ///< A missing list is empty; another missing value is the one below.
    std::uint64_t fill = 0;         ///< The bits of that number,
    std::string words;              ///< or that text.
};

struct Column {
    Pool::Block numbers; ///< int64, uint64 or float64; a boolean takes one byte.
    StringBlocks texts;
    std::size_t values = 0; ///< In all lines.

    /// Where the lists of one depth begin and end: int64, one more than there are lists.
    struct Offsets {
        Pool::Block places;
        std::size_t count = 0;
    };
    std::vector<Offsets> offsets; ///< Outermost first: there are as many of those lists as lines.
};

/// Decodes lines into columns. Immutable: one decoder serves many threads.
class Decoder {
  public:
    /// With `only_known`, a line with another key than those of the specs is not plain, unless it holds nothing: null
    /// or an object without keys. Throws FormatError{range} if a spec has no path or less depth than lists of objects,
    /// or if its path is also that of another one, or leads to it.
    explicit Decoder(std::vector<Spec> specs, bool only_known = false);
    Decoder(Decoder&&) = default;
    Decoder(const Decoder&) = delete;
    Decoder& operator=(Decoder&&) = delete;
    Decoder& operator=(const Decoder&) = delete;
    ~Decoder() = default;

    [[nodiscard]] const std::vector<Spec>& specs() const noexcept { return specs_; }

    /// The columns; nothing if any line is not plain. A plain line is one object in JSON (RFC 8259) without line ends
    /// inside, with each wanted key at most once and without escapes in keys, and every value as its spec says: null or
    /// missing only where it may be (an object is missing with all that is in it; in a list of objects, only lists may
    /// be), whole numbers in digits only, finite floats that are normal or zero, text in UTF-8 without NUL or lone
    /// surrogates, no null in lists, and nesting of other values of at most `most_depth`.
    [[nodiscard]] std::optional<std::vector<Column>> decode(const std::vector<Bytes>& lines,
                                                            const std::shared_ptr<Pool>& pool) const;

    static constexpr unsigned most_depth = 64;

  private:
    friend class Run;

    /// A wanted key of an object.
    struct Member {
        std::string key;
        bool is_object = false, is_list = false; ///< Both: a list of objects.
        std::size_t number = 0;                  ///< Of the object, or of the spec.
    };

    /// The wanted keys of the objects at one place.
    struct Object {
        std::vector<Member> members;
        std::unordered_map<std::string, std::size_t> places; ///< Of each key in `members`.

        // Of lines, and of the objects in lists: what is in them, but not in a list in them.
        std::vector<std::size_t> specs;
        std::vector<std::size_t> lists; ///< The numbers of the objects in them.

        // Of the objects in lists.
        std::size_t level = 0;          ///< How many other lists of objects they are in.
        std::vector<std::size_t> below; ///< All specs in them.
    };

    void add(std::size_t spec);
    std::size_t add_key(std::size_t object, std::size_t spec, std::size_t level, bool is_list);

    std::vector<Spec> specs_;
    std::vector<Object> objects_; ///< The first is a line.
    bool only_known_;
};

} // namespace headrace::json
