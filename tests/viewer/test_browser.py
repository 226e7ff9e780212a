"""The viewer in a real browser: Chromium, driven through WebDriver. Left out where neither is installed."""

import base64
import os
import shutil
import tempfile

import numpy as np
import pytest
from tests.hosting.places import sample
from tests.viewer.conftest import example
from tests.viewer.test_hostile import hostile_source

import headrace as hr
from headrace.hosting.endpoint import create_endpoint
from headrace.viewer.dataset import ShownDataset, open_datasets
from headrace.viewer.server import View

selenium = pytest.importorskip("selenium")
from selenium import webdriver  # noqa: E402
from selenium.common.exceptions import WebDriverException  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromium-driver")
PATIENCE_S = 120  # the machine may be busy


@pytest.fixture(scope="module")
def browser():
    """A browser that reaches this machine only, and keeps a list of what pages ask for."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    with tempfile.TemporaryDirectory() as profile:
        for each in (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1200,900",
            f"--user-data-dir={profile}",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
        ):
            options.add_argument(each)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        # With NO_PROXY, so that a proxy of the environment is not asked for the driver.
        os.environ.setdefault("NO_PROXY", "127.0.0.1,localhost")
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        driver.set_page_load_timeout(PATIENCE_S)
        yield driver
        driver.quit()


@pytest.fixture
def opened(browser):
    """Opens datasets in the browser."""
    views = []

    def make(*datasets):
        shown = View(datasets, is_embedded=False)
        views.append(shown)
        browser.get(shown.url)
        _until(browser, lambda: "token" not in browser.current_url and browser.find_elements(By.TAG_NAME, "main"))
        browser.root = browser.current_url.split("/", 3)
        browser.root = "/".join(browser.root[:3])
        return browser

    yield make
    for shown in views:
        shown.close()


def _until(browser, condition):
    """Waits until `condition` holds. While one page gives way to the next, a question about an element can fail in
    several ways (a stale element, "Node with given id does not belong to the document"): it is asked again."""
    return WebDriverWait(browser, PATIENCE_S, 0.05, ignored_exceptions=[WebDriverException]).until(
        lambda _: condition()
    )


def _find(browser, by, name):
    """The element, once the page is complete and has it."""
    return _until(browser, lambda: _is_complete(browser) and browser.find_element(by, name))


def _is_complete(browser):
    return browser.execute_script("return document.readyState") == "complete"


def _text(browser):
    """What the page says. One question, so that no part of it is of the page before."""
    return browser.execute_script("return document.readyState === 'complete' ? document.body.innerText : ''")


def _pictures_are_there(browser):
    script = "return [...document.images].every(i => i.loading !== 'lazy' || i.complete && i.naturalWidth > 0 || i.getBoundingClientRect().top > innerHeight)"
    return browser.execute_script(script)


def test_rows_and_the_keyboard(opened, shown):
    browser = opened(shown)
    _until(browser, lambda: "300 examples" in _text(browser))
    _until(browser, lambda: _pictures_are_there(browser))
    assert browser.find_elements(By.CSS_SELECTOR, "svg.spark polyline")
    _find(browser, By.TAG_NAME, "body").send_keys(Keys.ARROW_RIGHT)
    _until(browser, lambda: "start=50" in browser.current_url)
    _find(browser, By.LINK_TEXT, "57").click()
    _until(browser, lambda: "row=57" in browser.current_url and "example 57" in _text(browser))
    _find(browser, By.TAG_NAME, "body").send_keys("k")
    _until(browser, lambda: "row=56" in browser.current_url)


def test_an_image_enlarges(opened, shown):
    browser = opened(shown)
    _find(browser, By.CSS_SELECTOR, "a.picture").click()
    _until(
        browser, lambda: browser.find_element(By.CSS_SELECTOR, "dialog[open] img").get_property("naturalWidth") == 60
    )
    _find(browser, By.TAG_NAME, "dialog").click()
    _until(browser, lambda: not browser.find_elements(By.CSS_SELECTOR, "dialog[open]"))


def test_a_filter(opened, shown):
    browser = opened(shown)
    _find(browser, By.TAG_NAME, "body").send_keys("/")
    field = _find(browser, By.NAME, "where")
    assert browser.switch_to.active_element == field
    field.send_keys("label = 2 and width > 290", Keys.ENTER)
    _until(browser, lambda: "rows fit" in _text(browser))
    rows = [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, "tbody th")]
    assert rows == ["293", "296", "299"]
    _find(browser, By.NAME, "where").send_keys(" and lable = 3", Keys.ENTER)
    _until(browser, lambda: "Did you mean 'label'" in _text(browser))


def test_a_grid(opened, shown):
    browser = opened(shown)
    _find(browser, By.LINK_TEXT, "Images").click()
    _until(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, ".grid img")) == 60)
    _until(browser, lambda: _pictures_are_there(browser))
    assert [each.text for each in browser.find_elements(By.TAG_NAME, "h2")] == ["label: 0", "label: 1", "label: 2"]


def test_a_fault_leads_to_its_bytes(opened, tmp_path):
    path = tmp_path / "bad.tfrecord"
    hr.write(path, [example(row) for row in range(30)])
    content = bytearray(path.read_bytes())
    content[hr.open(path).where(7).offset + 60] ^= 0xFF
    path.write_bytes(content)
    browser = opened(open_datasets(str(path))[0])
    _find(browser, By.LINK_TEXT, "Faults").click()
    link = _find(browser, By.CSS_SELECTOR, "td a")
    assert "record 7" in link.text
    browser.get(link.get_attribute("href"))
    _until(browser, lambda: "Bytes at fault 0" in _text(browser))
    assert browser.find_elements(By.CSS_SELECTOR, "pre.hex .field-0")


def test_an_endpoint_answers_a_row(opened, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path / "state"))
    endpoint = create_endpoint("echo-two", [sample("echo")])
    try:
        browser = opened(ShownDataset(hr.ColumnSource({"a": np.array([1.5, 2.5])}), name="made", code="made"))
        _find(browser, By.LINK_TEXT, "Endpoints").click()
        _find(browser, By.LINK_TEXT, "echo-two").click()
        _until(browser, lambda: browser.current_url.endswith("/echo-two") and "Send the row" in _text(browser))
        field = _find(browser, By.NAME, "row")
        field.clear()
        field.send_keys("1", Keys.ENTER)
        _until(browser, lambda: "Answer" in _text(browser) and "2.5" in _text(browser))
    finally:
        endpoint.delete()


def test_hostile_data_runs_nothing_and_asks_nobody(opened, browser):
    browser.get_log("performance")
    shown = opened(ShownDataset(hostile_source(), name="<script>document.title='run'</script>", code="x"))
    for page in (
        "/0/",
        "/0/?row=0",
        "/0/?row=1",
        "/0/?row=4",
        "/0/schema",
        "/0/?where='script'",
        "/0/order",
        "/<script>document.title='run'</script>",
    ):
        shown.get(shown.root + page)
        _until(shown, lambda: _is_complete(shown))
        assert shown.title != "run"
        assert not shown.find_elements(By.TAG_NAME, "iframe")
        assert shown.execute_script("return document.scripts.length") == 1
    asked = _requests(shown)
    assert len(asked) > 10
    assert all(each.startswith((shown.root, "data:,")) for each in asked), asked


def _requests(browser):
    """The addresses that pages have asked for."""
    import json

    found = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(message["params"]["request"]["url"])
    return [each for each in found if not each.startswith(("chrome", "about:"))]


def test_scripts_in_data_are_refused_by_the_policy_too(opened, shown):
    """Even if markup got in, the browser would not run it."""
    browser = opened(shown)
    script = "const s = document.createElement('script'); s.textContent = \"document.title = 'run'\"; document.body.append(s); return document.title"
    assert browser.execute_script(script) != "run"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(opened, shown, scheme):
    """WCAG AA: 4.5 to 1, in both colour schemes."""
    browser = opened(shown)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    script = """
        const luminance = (c) => { const v = c.map(x => { x /= 255; return x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; }); return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
        const parse = (s) => (s.match(/[\\d.]+/g) || []).map(Number);
        const bad = [];
        for (const e of document.querySelectorAll('main *, header *')) {
            if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || e.closest('svg')) continue;
            const ink = parse(getComputedStyle(e).color);
            let under = e, paper = [];
            while (under && !(paper.length && (paper.length < 4 || paper[3] > 0))) { paper = parse(getComputedStyle(under).backgroundColor); under = under.parentElement; }
            const [a, b] = [luminance(ink.slice(0, 3)), luminance(paper.slice(0, 3))].sort((x, y) => y - x);
            const ratio = (a + .05) / (b + .05);
            if (ratio < 4.5) bad.push([e.outerHTML.slice(0, 80), ratio]);
        }
        return bad;
    """
    for page in ("/0/", "/0/?row=3", "/0/bytes?row=3", "/0/faults", "/0/?row=99999"):
        browser.get(browser.root + page)
        assert browser.execute_script(script) == []
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_narrow_screens_do_not_scroll_sideways(opened, shown):
    browser = opened(shown)
    browser.set_window_size(500, 800)
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        for page in ("/0/", "/0/?row=3", "/0/grid", "/0/order", "/0/schema"):
            browser.get(browser.root + page)
            assert browser.execute_script("return document.documentElement.scrollWidth") <= 360, page
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.set_window_size(1200, 900)


def test_everything_has_a_name_and_a_place(opened, shown):
    """What a screen reader needs: a language, one main part and heading, names of fields and images."""
    browser = opened(shown)
    script = """
        const named = (e) => e.getAttribute('aria-label') || e.labels?.length || e.alt || e.textContent.trim();
        return [document.documentElement.lang, document.querySelectorAll('main').length, document.querySelectorAll('h1').length,
            [...document.querySelectorAll('input:not([type=hidden]), select, img, nav, table, [role=img], [role=region]')].filter(e => !named(e)).map(e => e.outerHTML)];
    """
    for page in ("/0/", "/0/?row=3", "/0/grid", "/0/order", "/0/schema", "/0/faults", "/endpoints"):
        browser.get(browser.root + page)
        assert browser.execute_script(script) == ["en", 1, 1, []], page


VIEWS = ("/0/", "/0/?row=3", "/0/grid", "/0/order", "/0/schema", "/0/faults", "/0/bytes?row=3", "/endpoints")


@pytest.fixture
def emulated(browser):
    """Sets what the browser says about the screen, until the end of a test."""

    def make(media="", **features):
        given = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": given})

    yield make
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def _open(browser, page):
    browser.get(browser.root + page)
    _until(browser, lambda: _is_complete(browser))


def test_a_page_of_400_percent_does_not_scroll_sideways(opened, shown):
    """A window of 1280 x 1024 at 400 % has 320 x 256 pixels of CSS: WCAG 1.4.10. The head does not stay over the content."""
    browser = opened(shown)
    size = {"width": 320, "height": 256, "deviceScaleFactor": 4, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for page in VIEWS:
            _open(browser, page)
            assert browser.execute_script("return document.documentElement.scrollWidth") <= 320, page
            assert (
                browser.execute_script("return getComputedStyle(document.querySelector('header')).position") == "static"
            )
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_text_of_twice_the_size_fits(opened, shown):
    """WCAG 1.4.4: nothing is cut off where only the text is larger."""
    browser = opened(shown)
    script = """
        document.documentElement.style.fontSize = '200%'; document.body.style.fontSize = '200%';
        return [document.documentElement.scrollWidth <= innerWidth,
            [...document.querySelectorAll('h1, h2, button, nav a, label')].filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth).map(e => e.outerHTML)];
    """
    for page in VIEWS:
        _open(browser, page)
        assert browser.execute_script(script) == [True, []], page


def test_nothing_moves_where_motion_is_reduced(opened, shown, emulated):
    browser = opened(shown)
    emulated(prefers_reduced_motion="reduce")
    script = """
        return [...document.styleSheets].flatMap(s => [...s.cssRules]).filter(r => r instanceof CSSMediaRule ? matchMedia(r.media.mediaText).matches : true)
            .map(r => r.cssText).filter(t => /transition|animation|scroll-behavior|transform:/.test(t));
    """
    _open(browser, "/0/grid")
    assert browser.execute_script(script) == []
    emulated(prefers_reduced_motion="no-preference")
    assert browser.execute_script(script) != []


def test_forced_colours_keep_what_colours_say(opened, shown, emulated):
    """Lines, bars and the fields of bytes are drawn in the user's colours."""
    browser = opened(shown)
    emulated(forced_colors="active")
    ink = "const probe = document.createElement('p'); probe.style.color = 'CanvasText'; document.body.append(probe); const ink = getComputedStyle(probe).color;"
    for page, name, style in (
        ("/0/", ".spark polyline", "stroke"),
        ("/0/schema", ".bar rect", "fill"),
        ("/0/bytes?row=3", ".hex .field-0", "borderTopColor"),
    ):
        _open(browser, page)
        _find(browser, By.CSS_SELECTOR, name)
        script = f"{ink} return getComputedStyle(document.querySelector('{name}')).{style} === ink"
        assert browser.execute_script(script), page
    assert (
        browser.execute_script("return getComputedStyle(document.querySelector('.hex .field-0')).borderTopStyle")
        == "solid"
    )


def test_a_printed_page_has_the_content_alone(opened, shown, emulated):
    browser = opened(shown)
    for page in VIEWS:
        emulated(media="print", prefers_color_scheme="dark")
        _open(browser, page)
        script = """
            const seen = (s) => [...document.querySelectorAll(s)].filter(e => e.getClientRects().length).length;
            const style = getComputedStyle(document.body);
            return [seen('form, header nav, .skip, .pager a'), seen('h1'), style.backgroundColor, style.color,
                [...document.querySelectorAll('.scroll, pre')].filter(e => getComputedStyle(e).overflowX !== 'visible').length];
        """
        assert browser.execute_script(script) == [0, 1, "rgb(255, 255, 255)", "rgb(0, 0, 0)", 0], page
    printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert printed.startswith(b"%PDF")
