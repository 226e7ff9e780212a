#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/protobuf/example/columns.hpp"

namespace headrace::example {

/// How the entries of one writer's records begin. Writers keep the keys of all records in one order and write each
/// entry in the same form. So every byte up to a value is known but for the lengths, and each of these follows from the
/// first one. Comparing these bytes, eight at a time, replaces parsing. Immutable.
class RecordTemplate {
  public:
    /// What remains of an entry after the bytes that were compared.
    enum class Content : std::uint8_t {
        skipped, ///< The value of a key that was not requested.
        steps,   ///< A FeatureList.
        value,   ///< A Feature of any form.
        integer, ///< A packed run of one integer.
        floats,  ///< A packed run of as many floats as the spec says.
        run,     ///< A packed run of any other numbers.
        text,    ///< The only text of a list.
        texts,   ///< A list of texts.
    };

    /// The entry of a key, where records have it.
    struct Entry {
        std::size_t least_length = 0; ///< The length of the entry if its content is empty.
        std::uint32_t size = 0;       ///< How many bytes are before the content, if all lengths take one byte.
        std::uint32_t first_word = 0; ///< The number of their first word in `words_`.
        int spec = -1;                ///< -1: not requested.
        std::uint32_t number = 0;
        Content content = Content::skipped;
        bool has_flat = false; ///< Of a feature list: whether some records have a feature of its name.
    };

    /// A key of a record that was parsed.
    struct Key {
        std::string key;
        bool in_lists = false;
        int spec = -1;
    };

    /// A template for records like one with these keys, and for those of `before` (may be null) if their order is the
    /// same. Null if a key is there twice, if there are too many or too long ones, if a feature has the name of a
    /// feature list that is wanted and not there, or a feature list that of a feature that is wanted.
    [[nodiscard]] static std::shared_ptr<const RecordTemplate>
    learn(const RecordTemplate* before, std::span<const Key> keys, std::span<const Spec> specs);

    /// The entries of features or of feature lists, in order.
    [[nodiscard]] std::span<const Entry> entries(bool in_lists) const noexcept {
        const std::span<const Entry> all(entries_);
        return in_lists ? all.subspan(features_) : all.first(features_);
    }

    /// Specs whose keys no record had.
    [[nodiscard]] const std::vector<int>& absent() const noexcept { return absent_; }

    /// Whether the entry at the start of `rest` has this key, the usual form and lengths below 128. Sets `content`,
    /// which ends with the entry and has eight readable bytes before it.
    [[nodiscard]] bool match(const Entry& entry, Bytes rest, Bytes& content) const noexcept {
        constexpr std::size_t head = 2;
        if (rest.size() < head) return false;
        const auto length = std::to_integer<std::size_t>(rest[1]);
        if (length < entry.least_length || length > most_length || length > rest.size() - head) return false;
        const std::size_t size = length - entry.least_length;
        const Word* word = words_.data() + entry.first_word;
        std::uint64_t differ = 0;
        std::size_t at = 0;
        for (; entry.size - at > sizeof differ; at += sizeof differ, ++word)
            differ |= load_le<std::uint64_t>(rest.data() + at) ^ (word->bytes + size * word->lengths);
        at = entry.size - sizeof differ;
        differ |= load_le<std::uint64_t>(rest.data() + at) ^ (word->bytes + size * word->lengths);
        content = {rest.data() + entry.size, size};
        return differ == 0;
    }

    /// Whether the entry at the start of `rest` has this key, and one value that ends with it. Sets `value` and
    /// `size`, that of the entry.
    [[nodiscard]] bool match_key(const Entry& entry, Bytes rest, Bytes& value, std::size_t& size) const noexcept;

  private:
    /// Eight bytes where the content is empty, and a one for each length among them, to which its size is added.
    struct Word {
        std::uint64_t bytes = 0;
        std::uint64_t lengths = 0;
    };

    static constexpr std::size_t most_length = 0x7F; ///< That one byte holds.

    void add(const Key& key, std::span<const Spec> specs);
    [[nodiscard]] bool mark_flat(std::span<const Spec> specs);
    [[nodiscard]] bool has_steps(std::span<const Spec> specs) const;

    std::vector<Entry> entries_; ///< Features, then feature lists.
    std::size_t features_ = 0;
    std::vector<Word> words_;
    std::vector<Key> keys_;          ///< The key of each entry.
    std::vector<std::string> heads_; ///< Of each entry, its bytes from the tag up to the length of the value.
    std::vector<int> absent_;
};

} // namespace headrace::example
