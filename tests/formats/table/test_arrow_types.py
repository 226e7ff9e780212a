"""What files say of the types in them, in their metadata."""

import numpy as np
import pytest

import headrace as hr


@pytest.mark.parametrize(("format", "library"), [("parquet", "pyarrow"), ("avro", "fastavro")])
def test_files_name_the_same_classes(tmp_path, format, library):
    pytest.importorskip(library)
    names = [("cat", "dog"), ("bird", "cat"), ("cat", "dog"), None]
    paths = [tmp_path / f"{at}.{format}" for at in range(4)]
    for path, each in zip(paths, names, strict=True):
        hr.write(path, {"label": np.array([0, 1])}, schema={"label": hr.Feature("int64", names=each)})
    assert hr.open([paths[0], paths[2], paths[3]]).schema["label"].names == ("cat", "dog")
    assert len(hr.open(paths, schema={"label": hr.Feature("int64")})) == 8
    found = rf"the class names \('cat', 'dog'\), as in .*0.{format}, found \('bird', 'cat'\)"
    with pytest.raises(hr.SchemaMismatch, match=found) as raised:
        _ = hr.open(paths).schema
    assert (raised.value.where.path, raised.value.where.feature) == (str(paths[1]), "label")
