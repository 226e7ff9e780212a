#include "core/engines/jpeg/header.hpp"

#include <algorithm>
#include <cstring>

namespace headrace::jpeg {
namespace {

constexpr std::array<std::uint8_t, 64 + 2 * 16 + beyond> make_zigzag() {
    std::array<std::uint8_t, 64 + 2 * 16 + beyond> order{};
    order.fill(64);
    unsigned row = 0;
    unsigned column = 0;
    for (std::size_t k = 0; k < 64; ++k) {
        order[k] = static_cast<std::uint8_t>(row * 8 + column);
        const bool rises = (row + column) % 2 == 0;
        const bool is_at_edge = rises ? row == 0 || column == 7 : row == 7 || column == 0;
        const bool turns_down = rises ? column == 7 : row != 7;
        if (is_at_edge) {
            if (turns_down) ++row;
            else ++column;
        } else if (rises) {
            --row;
            ++column;
        } else {
            ++row;
            --column;
        }
    }
    return order;
}

constexpr std::uint32_t most_side = 65500; // as libjpeg
constexpr unsigned most_dc_bits = 11;
constexpr unsigned most_ac_bits = 10;
constexpr unsigned most_low_of_means = 13;
constexpr unsigned most_low = 15 - most_ac_bits; // So that no coefficient wraps, and one with bits is never 0.

/// Thrown for an image that is not plain; never leaves this file.
struct NotPlain {};

void need(bool is_plain) {
    if (!is_plain) throw NotPlain{};
}

/// Reads the segments of a header one by one.
class Reader {
  public:
    explicit Reader(Bytes file) : file_(file), at_(file) {}
    /// To go on behind a scan, with the header before it.
    Reader(Bytes file, std::size_t at, const Header& before)
        : file_(file),
          at_(file.subspan(at)),
          header_(before),
          is_later_(true) {}

    Header read() {
        need(pair(at_) == (0xFF00 | start));
        while (!segment(marker())) {}
        return header_;
    }

    /// The header with the next scan; nothing at the end of the image.
    std::optional<Header> read_next() {
        for (;;) {
            const unsigned found = marker();
            if (found == end_of_image) return std::nullopt;
            if (segment(found)) return header_;
        }
    }

  private:
    [[nodiscard]] unsigned marker() {
        need(byte(at_) == 0xFF);
        return byte(at_);
    }

    /// Reads one segment. Returns whether it was the last one before a scan.
    bool segment(unsigned marker) {
        const unsigned size = pair(at_);
        need(size >= 2);
        Cursor inside(at_.take(size - 2));
        switch (marker) {
        case start_of_frame:
        case start_of_extended: frame(inside); break;
        case start_of_progressive:
            frame(inside);
            header_.is_progressive = true;
            break;
        case huffman: codes(inside); break;
        case quantization: quantizers(inside); break;
        case restart_interval: header_.restart = pair(inside); break;
        case start_of_scan: scan(inside); break;
        case application_0: jfif(inside); return false;
        case application_14: adobe(inside); return false;
        default: need(marker == comment || (marker > application_0 && marker <= application_15)); return false;
        }
        need(inside.done());
        return marker == start_of_scan;
    }

    static bool starts_with(const Cursor& inside, std::array<char, 5> name, std::size_t least) {
        return inside.remaining() >= least && std::memcmp(inside.position(), name.data(), name.size()) == 0;
    }

    void jfif(Cursor& inside) {
        if (!starts_with(inside, {'J', 'F', 'I', 'F', 0}, 14)) return;
        is_jfif_ = true;
        inside.skip(5);
        need(byte(inside) == 1); // the version; libjpeg warns of any other
    }

    void adobe(Cursor& inside) {
        if (!starts_with(inside, {'A', 'd', 'o', 'b', 'e'}, 12)) return;
        inside.skip(11);
        adobe_transform_ = static_cast<int>(byte(inside));
    }

    void frame(Cursor& inside) {
        need(header_.channels == 0 && byte(inside) == 8);
        header_.height = pair(inside);
        header_.width = pair(inside);
        need(header_.height != 0 && header_.width != 0 && std::max(header_.height, header_.width) <= most_side);
        const unsigned count = byte(inside);
        need(count == 1 || count == 3);
        header_.channels = count;
        for (Component& component : components()) {
            component.id = static_cast<std::uint8_t>(byte(inside));
            const unsigned sampling = byte(inside);
            component.across = static_cast<std::uint8_t>(sampling >> 4);
            component.down = static_cast<std::uint8_t>(sampling & 15);
            component.steps = static_cast<std::uint8_t>(byte(inside));
            need(component.steps < 4);
        }
        count == 1 ? grey() : colours();
    }

    /// The single plane of a grey image comes block by block, whatever its sampling factors are.
    void grey() {
        Component& only = header_.components[0];
        need(only.across >= 1 && only.across <= 4 && only.down >= 1 && only.down <= 4);
        only.across = only.down = 1;
    }

    void colours() const {
        const auto& [luma, blue, red] = header_.components;
        need(blue.across == 1 && blue.down == 1 && red.across == 1 && red.down == 1);
        need((luma.across == 1 || luma.across == 2) && luma.down >= 1 && luma.down <= luma.across);
        need(luma.id != blue.id && luma.id != red.id && blue.id != red.id);
        need(luma.across == 1 || header_.width > 4); // libjpeg smooths no chroma of one or two columns
    }

    [[nodiscard]] bool are_luma_and_chroma() const {
        if (is_jfif_) return true;
        if (adobe_transform_ >= 0) return adobe_transform_ == 1;
        return header_.components[0].id == 1 && header_.components[1].id == 2 && header_.components[2].id == 3;
    }

    void quantizers(Cursor& inside) {
        need(!is_later_); // Each plane keeps what it had at its first scan.
        while (!inside.done()) {
            const unsigned which = byte(inside);
            need(which < 4); // the upper half says 8 bits
            for (std::size_t k = 0; k < 64; ++k)
                header_.steps[which][zigzag[k]] = static_cast<std::uint16_t>(byte(inside));
            has_steps_[which] = true;
        }
    }

    void codes(Cursor& inside) {
        while (!inside.done()) {
            const unsigned which = byte(inside);
            const bool is_ac = which >> 4 == 1;
            need(which >> 4 <= 1 && (which & 15) < 4);
            std::optional<Codes> read = take_codes(inside, is_ac ? 15 : 255, is_ac ? most_ac_bits : most_dc_bits);
            need(read.has_value());
            (is_ac ? header_.ac : header_.dc)[which & 15] = read;
        }
    }

    void scan(Cursor& inside) {
        need(header_.channels != 0);
        Scan& scan = header_.scan;
        scan.count = byte(inside);
        need(scan.count >= 1 && scan.count <= header_.channels);
        need(header_.is_progressive || scan.count == header_.channels);
        std::size_t next = 0;
        for (std::size_t i = 0; i < scan.count; ++i) {
            const unsigned id = byte(inside);
            while (next < header_.channels && header_.components[next].id != id) ++next; // they keep their order
            need(next < header_.channels);
            Component& component = header_.components[next];
            const unsigned tables = byte(inside);
            need(tables >> 4 < 4 && (tables & 15) < 4);
            component.dc = static_cast<std::uint8_t>(tables >> 4);
            component.ac = static_cast<std::uint8_t>(tables & 15);
            scan.planes[i] = static_cast<std::uint8_t>(next++);
        }
        scan.first = byte(inside);
        scan.last = byte(inside);
        const unsigned approximation = byte(inside);
        scan.high = approximation >> 4;
        scan.low = approximation & 15;
        header_.is_progressive ? part_of_the_coefficients() : all_coefficients();
        if (!is_later_) { // The library decides these at the first scan.
            for (const Component& component : components()) need(has_steps_[component.steps]);
            need(header_.channels == 1 || are_luma_and_chroma());
        }
        scan.begin = static_cast<std::size_t>(inside.position() - file_.data());
    }

    void all_coefficients() {
        const Scan& scan = header_.scan;
        need(scan.first == 0 && scan.last == 63 && scan.high == 0 && scan.low == 0);
        for (const Component& component : components()) need(header_.dc[component.dc] && header_.ac[component.ac]);
    }

    void part_of_the_coefficients() const {
        const Scan& scan = header_.scan;
        const bool has_means = scan.first == 0;
        need(scan.last <= 63 && (has_means ? scan.last == 0 : scan.count == 1 && scan.first <= scan.last));
        need(scan.low <= (has_means ? most_low_of_means : most_low));
        need(scan.high == 0 || scan.high == scan.low + 1);
        for (std::size_t i = 0; i < scan.count; ++i) {
            const Component& component = header_.components[scan.planes[i]];
            if (!has_means) need(header_.ac[component.ac].has_value());
            else need(scan.high != 0 || header_.dc[component.dc].has_value());
        }
    }

    [[nodiscard]] std::span<Component> components() { return std::span(header_.components).first(header_.channels); }

    Bytes file_;
    Cursor at_;
    Header header_;
    std::array<bool, 4> has_steps_{};
    bool is_later_ = false; ///< A scan came before.
    bool is_jfif_ = false;
    int adobe_transform_ = -1;
};

} // namespace

constexpr std::array<std::uint8_t, 64 + 2 * 16 + beyond> zigzag_order = make_zigzag();
const std::array<std::uint8_t, 64 + 2 * 16 + beyond> zigzag = zigzag_order;

std::optional<Header> plain_header(Bytes file) noexcept {
    try {
        return Reader(file).read();
    } catch (const NotPlain&) {
        return std::nullopt;
    } catch (const FormatError&) {
        return std::nullopt;
    }
}

Next next_scan(Bytes file, std::size_t at, Header& header) noexcept {
    try {
        std::optional<Header> found = Reader(file, at, header).read_next();
        if (!found) return Next::end;
        header = *found;
        return Next::scan;
    } catch (const NotPlain&) {
        return Next::fault;
    } catch (const FormatError&) {
        return Next::fault;
    }
}

} // namespace headrace::jpeg
