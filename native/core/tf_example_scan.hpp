#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/spans.hpp"
#include "core/tf_example_parse.hpp"

namespace headrace::example {

/// Encoded images that are told by their first bytes.
enum class Image : std::uint8_t { none, jpeg, png, gif, bmp, webp, tiff };
[[nodiscard]] Image recognise_image(Bytes bytes) noexcept;

/// Whether bytes are UTF-8 text without control characters other than tab, line feed and carriage return.
[[nodiscard]] bool is_plain_text(Bytes bytes) noexcept;

/// What was seen of one key.
struct KeyFacts {
    std::string name;
    bool list = false;                       ///< A feature list.
    std::uint64_t records = 0;               ///< Records that have it (with a list of values, for features).
    std::array<std::uint64_t, 4> kinds{};    ///< How many Features held each Kind; index 0: no list at all.
    std::uint64_t fewest = UINT64_MAX;       ///< Values per Feature.
    std::uint64_t most = 0;
    std::uint64_t fewest_steps = UINT64_MAX; ///< Of feature lists.
    std::uint64_t most_steps = 0;
    std::uint64_t texts = 0;                 ///< Values of kind bytes that were looked at.
    bool plain_text = true;                  ///< All of them are text.
    std::array<std::uint64_t, 7> images{};   ///< How many of them are each Image.
};

/// Gathers facts on every key of some records, for finding their schema.
class Scanner {
  public:
    /// Looks at the records of `spans`. A payload that is no protobuf message ends the scan with `is_message() == false`.
    void add(const Spans& spans);

    [[nodiscard]] bool is_message() const noexcept { return is_message_; }
    [[nodiscard]] std::uint64_t records() const noexcept { return records_; }
    [[nodiscard]] const std::vector<KeyFacts>& keys() const noexcept { return keys_; }

  private:
    void record(Bytes payload);
    void remember(const Entry& entry, bool list);
    static void feature(KeyFacts& facts, const List& list, std::uint64_t count);
    KeyFacts& facts_of(Bytes key, bool list);

    std::vector<KeyFacts> keys_;
    std::unordered_map<std::string, std::size_t> place_;
    std::uint64_t records_ = 0;
    bool is_message_ = true;
};

} // namespace headrace::example
