#pragma once

#include "core/protobuf/example/scan.hpp"

namespace headrace::example {

/// The bytes that payloads of one writer share. With fixed shapes, payloads differ only in their values: every tag,
/// length and key is at the same offset. If all of these equal those of a payload parsed before, the values are at the
/// same offsets too, and parsing can be skipped.
class WireTemplate {
  public:
    /// Points `lists` at the values of a payload. Returns false and leaves `lists` unchanged if it does not match.
    [[nodiscard]] bool locate(Bytes payload, std::vector<List>& lists) const;

    /// Whether to learn a payload that did not match: yes if the previous one had the same size.
    [[nodiscard]] bool is_worth_learning(Bytes payload) noexcept {
        const bool repeated = payload.size() == last_size_;
        last_size_ = payload.size();
        return repeated;
    }

    /// Learns from a parsed payload: where its values are, and those of entries that were not requested.
    void learn(Bytes payload, const std::vector<List>& lists, const std::vector<Part>& skipped);

  private:
    struct Stretch {
        std::size_t begin = 0;
        std::size_t size = 0;
    };
    struct Value {
        Kind kind = Kind::none;
        Stretch at;
    };

    std::size_t size_ = 0; ///< Of the payload; 0: nothing was learned.
    std::size_t last_size_ = 0;
    std::vector<Value> values_;    ///< One for each spec.
    std::vector<Stretch> same_;    ///< The bytes around the values, in order.
    std::vector<std::byte> bytes_; ///< Their content, concatenated.
};

} // namespace headrace::example
