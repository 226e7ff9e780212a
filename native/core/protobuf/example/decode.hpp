#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/cpu.hpp"
#include "core/base/pool.hpp"
#include "core/base/spans.hpp"
#include "core/protobuf/example/columns.hpp"
#include "core/protobuf/example/template.hpp"

namespace headrace::example {

/// Decodes batches of payloads into columns. Immutable: one decoder serves many threads.
class Decoder {
  public:
    explicit Decoder(std::vector<Spec> specs, const Cpu& cpu = this_cpu);

    [[nodiscard]] const std::vector<Spec>& specs() const noexcept { return specs_; }

    /// One column per spec. Checks each seal right before reading its payload. `usual` is what an earlier call left
    /// there, or null: a template of its records, which makes this call faster if its records are alike. Throws
    /// FormatError with `record` set, and `feature` if the fault is in one.
    [[nodiscard]] std::vector<Column> decode(const Spans& spans, const std::shared_ptr<Pool>& pool,
                                             std::shared_ptr<const RecordTemplate>& usual) const;
    [[nodiscard]] std::vector<Column> decode(const Spans& spans, const std::shared_ptr<Pool>& pool) const;

  private:
    friend class Run;

    /// Looks names up by views, without a copy.
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view name) const noexcept { return std::hash<std::string_view>{}(name); }
    };
    using Places = std::unordered_map<std::string, int, Hash, std::equal_to<>>;

    std::vector<Spec> specs_;
    Cpu cpu_;
    Places features_; ///< Feature names to specs.
    Places lists_;    ///< Feature list names to specs.
};

} // namespace headrace::example
