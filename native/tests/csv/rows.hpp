#pragma once

#include <random>
#include <string>

#include "core/csv/scan.hpp"

namespace headrace::testing {

/// Random rows: fields with and without quotes, and now and then a fault. Pieces are longer and shorter than a block.
inline std::string random_rows(std::mt19937& random, std::size_t rows) {
    static const std::string ends[] = {"\n", "\r\n", "\r", "\n\n", "\n\r\n"};
    static const std::string plain[] = {"", "1", "-2.5", "text", "a\"b", " \"x\"", "caf\xc3\xa9"};
    static const std::string quoted[] = {"\"\"", "\"a,b\"", "\"a\nb\r\n\"", "\"\"\"\"", "\"x\"\"y\"\"\"", "\",\""};
    static const std::string broken[] = {"\"a\"b", "\"open", "\"\"x\""};
    const bool has_faults = random() % 4 == 0;
    std::string text = random() % 4 == 0 ? "\n\r\n" : "";
    for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t field = 0, fields = random() % 9; field < fields; ++field) {
            if (field != 0) text += ',';
            const unsigned kind = random() % 40;
            if (kind < 20) text += plain[random() % std::size(plain)];
            else if (kind < 36) text += quoted[random() % std::size(quoted)];
            else if (kind < 38) text += '"' + std::string(random() % 300, random() % 2 == 0 ? ',' : 'q') + '"';
            else if (kind == 38) text += std::string(random() % 300, 'p');
            else if (has_faults) text += broken[random() % std::size(broken)];
        }
        if (row + 1 != rows || random() % 2 == 0) text += ends[random() % std::size(ends)];
    }
    return text;
}

} // namespace headrace::testing
