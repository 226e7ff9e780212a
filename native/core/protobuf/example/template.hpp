#pragma once

#include "core/protobuf/example/scan.hpp"

namespace headrace::example {

/// What the payloads of one writer have in common. Where shapes are fixed, they differ in their values only: every tag,
/// length and key is the same, and at the same place. So where all of these are equal to those of a payload that was
/// walked through, the values lie where they lay there, and there is no need to walk again.
class Mould {
  public:
    /// Points `lists` at the values of a payload; false if it has another form than the one that was taken. `lists` is
    /// then as it was.
    [[nodiscard]] bool fill(Bytes payload, std::vector<List>& lists) const;

    /// Whether it is worth taking the form of a payload that did not fit: the one before was as long.
    [[nodiscard]] bool wants(Bytes payload) noexcept {
        const bool repeated = payload.size() == last_size_;
        last_size_ = payload.size();
        return repeated;
    }

    /// Takes the form of a payload: where its values were found, and the values of the entries that nobody asked for.
    void take(Bytes payload, const std::vector<List>& lists, const std::vector<Part>& passed_over);

  private:
    struct Stretch {
        std::size_t begin = 0;
        std::size_t size = 0;
    };
    struct Value {
        Kind kind = Kind::none;
        Stretch at;
    };

    std::size_t size_ = 0; ///< Of the payload; 0: no form was taken.
    std::size_t last_size_ = 0;
    std::vector<Value> values_;    ///< By spec.
    std::vector<Stretch> same_;    ///< What lies around the values, in order.
    std::vector<std::byte> bytes_; ///< What is there, end to end.
};

} // namespace headrace::example
