#include "bind/support.hpp"

NB_MODULE(_native, module) {
    using namespace headrace::bind;
    nb::set_leak_warnings(
        false); // Objects held by threads at exit are not leaks, and the warning would only confuse users.
    module.doc() = "Framing, decoding and sampling in C++. Internal: only contracts, io, formats, codecs, sampling and "
                   "loading import it.";
    register_errors(module);
    register_pool(module);
    register_shared_loops(module);
    register_block(module);
    register_spans(module);
    register_copies(module);
    register_strings(module);
    register_cut_batch(module);
    register_files(module);
    register_gzip(module);
    register_crc32c(module);
    register_tfrecord(module);
    register_views(module);
    register_recordio(module);
    register_tar(module);
    register_csv(module);
    register_sagemaker_record(module);
    register_riegeli(module);
    register_riegeli_single(module);
    register_chunk_store(module);
    register_array_record(module);
    register_jpeg(module);
    register_json(module);
    register_npy(module);
    register_parquet(module);
    register_png(module);
    register_permutation(module);
    register_read(module);
    register_tf_example(module);
}
