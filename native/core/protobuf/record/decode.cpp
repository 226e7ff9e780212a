#include "core/protobuf/record/decode.hpp"

#include <algorithm>
#include <string_view>

#include "core/protobuf/record/rows.hpp"

namespace headrace::sagemaker {
namespace {

std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// One thread copies the columns of all parts but the first again, so more parts would gain little.
constexpr std::size_t most_parts = 16;

Room room_for(std::span<const Bytes> payloads) {
    Room room{payloads.size(), 0};
    for (const Bytes payload : payloads) room.bytes += payload.size();
    return room;
}

/// The state for some rows of one call of decode, reused from record to record.
class Run {
  public:
    Run(const std::vector<Spec>& specs, const Spans& spans, const std::shared_ptr<Pool>& pool,
        std::vector<Column>& columns, const Room& room)
        : specs_(specs),
          spans_(spans),
          reader_(spans),
          found_(specs.size()),
          has_text_(specs.size()),
          texts_(specs.size()) {
        rows_.reserve(specs.size());
        for (std::size_t k = 0; k < specs.size(); ++k) rows_.emplace_back(specs[k], columns[k], pool, room);
    }

    void record(std::size_t i) {
        feature_ = -1;
        reader_.read(i);
        for (Tensor& tensor : found_) tensor.clear();
        std::fill(has_text_.begin(), has_text_.end(), false);
        guess_ = 0;
        walk(
            reading_of(spans_, i),
            [this](Place place, Bytes bytes, std::uint64_t offset) { entry(place, bytes, offset); },
            [this](Place place, Bytes bytes) { text(place, bytes); });
        for (std::size_t k = 0; k < specs_.size(); ++k) {
            feature_ = static_cast<int>(k);
            if (specs_[k].layout == Layout::text) {
                rows_[k].put_text(has_text_[k] ? &texts_[k] : nullptr);
            } else {
                rows_[k].put(found_[k]);
            }
        }
    }

    [[nodiscard]] int feature() const noexcept { return feature_; }

  private:
    struct Guess {
        Place place;
        std::string key;
        int spec;
    };

    void entry(Place place, Bytes bytes, std::uint64_t offset) {
        read_entry(bytes, offset, entry_);
        feature_ = look_up(place, as_text(entry_.key));
        if (feature_ < 0) return;
        Tensor& tensor = found_[static_cast<std::size_t>(feature_)];
        tensor.clear();
        for (const auto& [value, at] : entry_.values) merge_value(value, at, tensor);
        feature_ = -1;
    }

    void text(Place place, Bytes bytes) {
        for (std::size_t k = 0; k < specs_.size(); ++k) {
            if (specs_[k].place != place) continue;
            has_text_[k] = true;
            texts_[k] = bytes;
        }
    }

    // Writers usually keep the keys of all records in one order, so first try the key that was at this position last
    // time.
    int look_up(Place place, std::string_view key) {
        const std::size_t at = guess_++;
        if (at < guesses_.size() && guesses_[at].place == place && guesses_[at].key == key) return guesses_[at].spec;
        int spec = -1;
        for (std::size_t k = 0; k < specs_.size(); ++k)
            if (specs_[k].place == place && specs_[k].key == key) spec = static_cast<int>(k);
        if (at < most_guesses) {
            if (at >= guesses_.size()) guesses_.resize(at + 1, Guess{Place::feature, {}, -1});
            guesses_[at] = {place, std::string(key), spec};
        }
        return spec;
    }

    // Records with more keys than this look every key up: a file must not make the guesses grow without bound.
    static constexpr std::size_t most_guesses = 1024;

    const std::vector<Spec>& specs_;
    const Spans& spans_;
    PayloadReader reader_;
    std::vector<Rows> rows_;
    std::vector<Tensor> found_;
    std::vector<bool> has_text_;
    std::vector<Bytes> texts_;
    std::vector<Guess> guesses_;
    std::size_t guess_ = 0;
    Entry entry_;
    int feature_ = -1;
};

std::vector<Column> decode_rows(const std::vector<Spec>& specs, const Spans& spans, const std::shared_ptr<Pool>& pool,
                                std::pair<std::size_t, std::size_t> rows, const Room& room) {
    std::vector<Column> columns(specs.size());
    Run run(specs, spans, pool, columns, room);
    for (std::size_t i = rows.first; i < rows.second; ++i) {
        try {
            run.record(i);
        } catch (FormatError& error) {
            error.record = static_cast<std::int64_t>(i);
            if (error.feature < 0) error.feature = run.feature();
            throw;
        }
    }
    return columns;
}

} // namespace

Bytes reading_of(const Spans& spans, std::size_t i) {
    const Bytes payload = spans.payloads[i];
    if (spans.alternatives.empty()) return payload;
    const Alternative* const other = spans.alternative(i);
    if (other == nullptr || is_record(payload) || !is_record(other->payload)) return payload;
    return other->payload;
}

Decoder::Decoder(std::vector<Spec> specs) : specs_(std::move(specs)) {}

std::vector<Column> Decoder::decode(const Spans& spans, const std::shared_ptr<Pool>& pool, unsigned threads,
                                    std::size_t least_bytes) const {
    const bool is_sparse = std::ranges::any_of(specs_, [](const Spec& spec) { return spec.layout == Layout::sparse; });
    const std::vector<std::size_t> cuts =
        cut_rows(spans.payloads, is_sparse ? std::min<std::size_t>(threads, most_parts) : 1, least_bytes);
    std::vector<std::vector<Column>> parts(cuts.size() - 1);
    on_threads(parts.size(), [&](std::size_t k) {
        const std::size_t end = k == 0 ? spans.payloads.size() : cuts[k + 1]; // The others are appended to the first.
        parts[k] = decode_rows(specs_, spans, pool, {cuts[k], cuts[k + 1]},
                               room_for(std::span(spans.payloads).subspan(cuts[k], end - cuts[k])));
    });
    return join_parts(specs_, std::move(parts), cuts, pool);
}

} // namespace headrace::sagemaker
