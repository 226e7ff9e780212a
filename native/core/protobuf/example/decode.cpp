#include "core/protobuf/example/decode.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/protobuf/example/steps.hpp"
#include "core/protobuf/example/values.hpp"

namespace headrace::example {
namespace {

std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

} // namespace

/// The state of one call of decode, reused from record to record.
class Run {
  public:
    Run(const Decoder& decoder, const Spans& spans, const std::shared_ptr<Pool>& pool,
        std::shared_ptr<const RecordTemplate> usual)
        : decoder_(decoder),
          spans_(spans),
          reader_(spans),
          progress_(spans),
          found_(decoder.specs_.size()),
          lists_(decoder.specs_.size()),
          steps_(decoder.specs_.size()),
          usual_(std::move(usual)) {
        columns_.reserve(decoder.specs_.size());
        for (const Spec& spec : decoder.specs_) columns_.emplace_back(spec, progress_, pool, decoder.cpu_);
    }

    void record(std::size_t i) {
        feature_ = -1;
        const Bytes payload = reader_.read(i);
        progress_.begin(payload);
        if (put_as_usual(payload, i)) return;
        find(payload);
        for (std::size_t k = 0; k < columns_.size(); ++k) {
            feature_ = static_cast<int>(k);
            decoder_.specs_[k].list ? put_lists(k) : put_feature(k, i);
        }
        if (learned_ != most_learned) learn();
    }

    /// Call it after each record. All of its values were copied.
    void leave() noexcept { reader_.leave(); }

    [[nodiscard]] int feature() const noexcept { return feature_; }

    /// What was read, with the template for the next call.
    [[nodiscard]] std::vector<Column> finish(std::shared_ptr<const RecordTemplate>& usual) {
        reader_.note_intact();
        usual = std::move(usual_);
        std::vector<Column> columns;
        columns.reserve(columns_.size());
        for (ColumnWriter& column : columns_) columns.push_back(column.finish());
        return columns;
    }

  private:
    using Entry = RecordTemplate::Entry;
    using Content = RecordTemplate::Content;

    /// Puts a record that is like the template. False, with nothing done, for any other, and for every fault: parsing
    /// finds it again.
    bool put_as_usual(Bytes payload, std::size_t i) {
        if (waiting_ != 0) {
            --waiting_;
            return false;
        }
        if (usual_ == nullptr) return false;
        bool is_usual = false;
        try {
            is_usual = put_groups(payload, i);
        } catch (const FormatError&) {}
        if (is_usual) {
            wait_ = 0;
            return true;
        }
        for (ColumnWriter& column : columns_) column.drop(i);
        waiting_ = wait_ = std::min(2 * wait_ + 1, most_wait);
        return false;
    }

    /// Features, then feature lists; either may be absent.
    bool put_groups(Bytes rest, std::size_t i) {
        const std::byte* const end = rest.data() + rest.size();
        for (const bool in_lists : {false, true}) {
            Bytes group;
            const auto tag = static_cast<std::byte>(in_lists ? 0x12 : 0x0A);
            if (!rest.empty() && rest[0] == tag) {
                rest = rest.subspan(1);
                if (!proto::take_counted(rest, group)) return false;
            }
            if (!put_entries(usual_->entries(in_lists), group, end, i)) return false;
        }
        for (const int spec : usual_->absent()) columns_[static_cast<std::size_t>(spec)].put_absent(i);
        return rest.empty();
    }

    bool put_entries(std::span<const Entry> entries, Bytes rest, const std::byte* end, std::size_t i) {
        const RecordTemplate& usual = *usual_;
        for (const Entry& entry : entries) {
            Bytes content;
            std::size_t size = 0;
            if (usual.match(entry, rest, content)) {
                if (!put_content(entry, content, end, i)) return false;
                rest = rest.subspan(entry.size + content.size());
            } else if (usual.match_key(entry, rest, content, size)) {
                if (!put_value(entry, content, i)) return false;
                rest = rest.subspan(size);
            } else if (entry.spec >= 0) {
                if (entry.has_flat) return false;
                columns_[static_cast<std::size_t>(entry.spec)].put_absent(i);
            }
        }
        return rest.empty();
    }

    bool put_content(const Entry& entry, Bytes content, const std::byte* end, std::size_t i) {
        if (entry.content == Content::skipped) return true;
        ColumnWriter& column = columns_[static_cast<std::size_t>(entry.spec)];
        switch (entry.content) {
        case Content::integer: return column.put_integer(content, i) || column.put_run(content, i);
        case Content::floats: return column.put_floats(content, i);
        case Content::run: return column.put_run(content, i);
        case Content::text: return column.put_text(content, end), true;
        case Content::texts: return column.put_texts(content, end);
        case Content::skipped:
        case Content::steps:
        case Content::value: break;
        }
        return put_value(entry, content, i);
    }

    /// Puts a Feature or a FeatureList.
    bool put_value(const Entry& entry, Bytes value, std::size_t i) {
        if (entry.content == Content::skipped) return true;
        const auto k = static_cast<std::size_t>(entry.spec);
        const Part part{value, spans_.payloads[i].data()};
        if (entry.content == Content::steps) {
            columns_[k].end_list(steps_[k].read(part, columns_[k]));
            return true;
        }
        if (!sole_list(part, list_)) return false;
        columns_[k].put(list_, i);
        return true;
    }

    void learn() {
        ++learned_;
        if (auto made = RecordTemplate::learn(usual_.get(), keys_, decoder_.specs_)) usual_ = std::move(made);
        waiting_ = 0;
    }

    void find(Bytes payload) {
        for (List& list : found_) list.clear();
        for (auto& lists : lists_) lists.clear();
        keys_.clear();
        walk(payload, [this](bool in_lists, Part bytes) { entry(in_lists, bytes); });
    }

    void entry(bool in_lists, Part bytes) {
        read_entry(bytes, entry_);
        const int spec = look_up(in_lists);
        if (spec < 0) {
            in_lists ? note_steps() : note_flat();
            return;
        }
        feature_ = spec;
        const auto k = static_cast<std::size_t>(spec);
        if (in_lists) {
            lists_[k].clear();
            entry_.each_value([&](Part value) { lists_[k].push_back(value); });
        } else {
            found_[k].clear();
            entry_.each_value([&](Part value) { merge_feature(value, found_[k]); });
        }
        feature_ = -1;
    }

    int look_up(bool in_lists) {
        const auto& places = in_lists ? decoder_.lists_ : decoder_.features_;
        const auto spec_of = [&places](std::string_view key) {
            const auto place = places.find(key);
            return place == places.end() ? -1 : place->second;
        };
        if (learned_ == most_learned) return spec_of(as_text(entry_.key));
        // From a copy: the bytes may change, and the template must not take one key for another.
        keys_.push_back({std::string(as_text(entry_.key)), in_lists, -1});
        return keys_.back().spec = spec_of(keys_.back().key);
    }

    /// Keeps the values of a feature where a feature list of its name is wanted: without one, they would be lost.
    void note_flat() {
        if (decoder_.lists_.empty()) return;
        const auto place = decoder_.lists_.find(as_text(entry_.key));
        if (place == decoder_.lists_.end() || !decoder_.specs_[static_cast<std::size_t>(place->second)].sole) return;
        List& flat = found_[static_cast<std::size_t>(place->second)];
        flat.clear();
        entry_.each_value([&](Part value) { merge_feature(value, flat); });
    }

    /// Keeps the steps of a feature list where a feature of its name is wanted.
    void note_steps() {
        const auto place = decoder_.features_.find(as_text(entry_.key));
        if (place == decoder_.features_.end()) return;
        const auto k = static_cast<std::size_t>(place->second);
        if (!decoder_.specs_[k].sole) return;
        lists_[k].clear();
        entry_.each_value([&](Part value) { walk_fields(value, 1, [&](Part step) { lists_[k].push_back(step); }); });
    }

    void put_feature(std::size_t k, std::size_t i) {
        if (found_[k].kind == Kind::none && !lists_[k].empty()) throw FormatError(Fault::steps, 0);
        columns_[k].put(found_[k], i);
    }

    void put_lists(std::size_t k) {
        const List& flat = found_[k];
        if (lists_[k].empty() && flat.kind != Kind::none && count_values(flat) != 0)
            throw FormatError(Fault::flat, 0, 0, static_cast<std::uint64_t>(flat.kind));
        std::size_t steps = 0;
        for (const Part& list : lists_[k]) steps += steps_[k].read(list, columns_[k]);
        columns_[k].end_list(steps);
    }

    static constexpr std::size_t most_wait = 64; // records that are parsed before the template is tried again
    static constexpr std::size_t most_learned = 4;

    const Decoder& decoder_;
    const Spans& spans_;
    PayloadReader reader_;
    Progress progress_;
    std::vector<ColumnWriter> columns_;
    std::vector<List> found_;              ///< Encoded lists by spec.
    std::vector<std::vector<Part>> lists_; ///< Encoded FeatureLists by spec.
    std::vector<StepReader> steps_;        ///< By spec.
    std::shared_ptr<const RecordTemplate> usual_;
    std::size_t wait_ = 0;
    std::size_t waiting_ = 0;
    std::size_t learned_ = 0;
    std::vector<RecordTemplate::Key> keys_; ///< Those of the record that was parsed last.
    example::Entry entry_;
    List list_;
    int feature_ = -1;
};

Decoder::Decoder(std::vector<Spec> specs, const Cpu& cpu) : specs_(std::move(specs)), cpu_(cpu) {
    for (std::size_t k = 0; k < specs_.size(); ++k) {
        auto& places = specs_[k].list ? lists_ : features_;
        // A key fills only one column; with two specs, the other would stay empty.
        if (!places.emplace(specs_[k].name, static_cast<int>(k)).second)
            throw std::invalid_argument("two specs for the key '" + specs_[k].name + "'");
    }
}

std::vector<Column> Decoder::decode(const Spans& spans, const std::shared_ptr<Pool>& pool) const {
    std::shared_ptr<const RecordTemplate> usual;
    return decode(spans, pool, usual);
}

std::vector<Column> Decoder::decode(const Spans& spans, const std::shared_ptr<Pool>& pool,
                                    std::shared_ptr<const RecordTemplate>& usual) const {
    Run run(*this, spans, pool, usual);
    for (std::size_t i = 0; i < spans.payloads.size(); ++i) {
        try {
            run.record(i);
            run.leave();
        } catch (FormatError& error) {
            error.record = static_cast<std::int64_t>(i);
            error.feature = run.feature();
            throw;
        }
    }
    return run.finish(usual);
}

} // namespace headrace::example
