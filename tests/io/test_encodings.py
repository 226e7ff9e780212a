"""Finding encodings that fit some bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.io.encodings import encoding_hint, likely_encodings

TEXTS = {
    "cp932": ["名前,都市\n山田太郎,東京\n佐藤花子,大阪\n", "商品名,価格\nりんご,100\nバナナ,200\n", "カメラ,5\n"],
    "euc_jp": ["名前,都市\n山田太郎,東京\nさとう,大阪\n", "商品名,価格\nりんご,100\n"],
    "gb18030": ["姓名,城市\n张伟,北京\n王芳,上海\n李娜,广州\n", "产品名称,价格,数量\n苹果手机,5000,10\n"],
    "big5": ["姓名,城市\n陳小明,台北\n林美玲,高雄\n", "產品名稱,價格,數量\n蘋果手機,5000,10\n"],
    "euc_kr": ["이름,도시\n김철수,서울\n이영희,부산\n", "제품명,가격\n사과,1000\n"],
    "cp1251": ["имя,город\nИван,Москва\nМария,Санкт-Петербург\n"],
    "koi8-r": ["имя,город\nИван,Москва\nМария,Санкт-Петербург\n"],
    "cp866": ["имя,город\nИван,Москва\nМария,Санкт-Петербург\n"],
    "cp1252": [
        "name,city\nJosé,Málaga\n",
        "Straße,Größe\n",
        "price\n5 €\n",
        "it’s,x\n",
        "“quoted”,1\n",
        "a,‘b’\n",
        "„Zitat“ – Größe\n",
        "“Été”\n",
        "Ångström,Øre\n",
        "20 °C,3\n",
    ],
    "cp1250": ["imię,miasto\nŁukasz,Łódź\nZażółć,Kraków\n", "Příliš žluťoučký kůň\n"],
    "cp1253": ["όνομα,πόλη\nΓιώργος,Αθήνα\n"],
    "cp1256": ["اسم,مدينة\nمحمد,القاهرة\n"],
    "mac-roman": ["name,city\nJosé,Málaga\n"],
    "cp850": ["name,city\nJosé,Málaga\nMüller,Köln\n"],
}
NOT_FIRST = {"cp1255": "שם,עיר\nדוד,ירושלים\n", "cp1254": "isim,şehir\nAyşe,İstanbul\nÇağrı,Muğla\n"}
"""Texts whose bytes say as much in another encoding: theirs is named, too."""


@pytest.mark.parametrize(("encoding", "text"), [(encoding, text) for encoding in TEXTS for text in TEXTS[encoding]])
def test_the_right_one_is_named_first(encoding, text):
    found = likely_encodings(text.encode(encoding))
    assert found[0][0] == encoding
    assert found[0][1] in text
    assert f"open with format=hr.CSV(encoding='{encoding}')" in encoding_hint(text.encode(encoding))


@pytest.mark.parametrize("encoding", NOT_FIRST)
def test_equally_likely_encodings_are_all_named(encoding):
    text = NOT_FIRST[encoding]
    assert encoding in dict(likely_encodings(text.encode(encoding)))


def test_a_sample_may_end_within_a_character():
    whole = TEXTS["cp932"][0].encode("cp932")
    assert {likely_encodings(whole[:size])[0][0] for size in range(12, len(whole))} == {"cp932"}


def test_nothing_is_suggested_for_bytes_that_are_not_text():
    for sample in (b"", b"plain", b"\xff\xfe\x80\x81\x00\xff" * 20, bytes(range(256)) * 4):
        assert likely_encodings(sample) == []
        assert "Any text encoding of Python works" in encoding_hint(sample)


@given(st.binary(max_size=60))
def test_no_bytes_break_it(sample):
    for encoding, shown in likely_encodings(sample):
        assert sample.decode(encoding, "ignore")
        assert shown is not None
