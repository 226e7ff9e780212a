#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/csv/grid.hpp"

namespace headrace::testing {

/// A column of a table of two columns, the other one of which is empty.
class CellTable {
  public:
    explicit CellTable(const std::vector<std::string>& values, bool has_quotes = true) : has_quotes_(has_quotes) {
        before_.push_back(~std::uint32_t{0});
        for (const std::string& value : values) {
            text_ += value;
            ends_.push_back(static_cast<std::uint32_t>(text_.size()));
            text_ += ',';
            ends_.push_back(static_cast<std::uint32_t>(text_.size()));
            before_.push_back(static_cast<std::uint32_t>(text_.size()));
            text_ += '\n';
        }
        text_.shrink_to_fit();
    }

    [[nodiscard]] csv::GridColumn column() const noexcept {
        return {text_.data(), text_.data() + text_.size(), before_.data(), ends_.data(), 1, 2, has_quotes_};
    }

  private:
    bool has_quotes_;
    std::string text_;
    std::vector<std::uint32_t> ends_, before_;
};

} // namespace headrace::testing
