#!/usr/bin/env python3
"""The web page in Chromium, against `minfer serve` with smollm2-135m: load, send, stream, stop, answer again, edit, reload,
errors, the API key, files of conversations, and text that would like to be markup.

Usage: web_test.py PROGRAM [unittest options]. Needs Python's selenium, chromium and chromedriver, and the model in the cache:
where one of them is missing it says so and skips; with MINFER_REQUIRE_MODELS=1 it fails. MINFER_WEB_SHOTS=FOLDER: also
writes screenshots there.
"""

import json
import os
import shutil
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

from served import TIMEOUT_S, Served, require_model

MODEL = "smollm2-135m"
CONTEXT = 2048
PHONE = (390, 844)
SHOTS = os.environ.get("MINFER_WEB_SHOTS")


def missing() -> str:
    """What this test lacks; empty: nothing."""
    if webdriver is None:
        return "Python's selenium"
    for name in ("chromium", "chromedriver"):
        if shutil.which(name) is None:
            return f"the program {name}"
    return ""


def serve(program: str, *options: str) -> Served:
    return Served(program, require_model(MODEL), "--ctx", str(CONTEXT), *options)


class Page:
    """The page in a browser of its own."""

    def __init__(self, url: str, folder: str, width=1280, height=860, dark=False):
        self.folder = folder
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = Service(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(options=options, service=service)
        phone = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get(url)
        self.wait(self.is_ready, "the page is built")

    def is_ready(self) -> bool:
        return self.script("return document.documentElement.dataset.ready") == "yes"

    def script(self, text: str, *arguments):
        return self.driver.execute_script(text, *arguments)

    def find(self, selector: str):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def wait(self, condition, what: str):
        end = time.monotonic() + TIMEOUT_S
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"did not come about: {what}")
            time.sleep(0.02)

    def knows_model(self):
        self.wait(lambda: "smollm2-135m" in self.find("#model").text, "the model's name")

    def is_writing(self) -> bool:
        return self.find("#stop").is_displayed()

    def write(self, text: str):
        self.find("#input").send_keys(text, Keys.ENTER)

    def send(self, text: str):
        """Sends and waits for the answer's end."""
        count = len(self.all("#messages article"))
        self.write(text)
        self.wait(lambda: len(self.all("#messages article")) == count + 2, "a question and an answer")
        self.wait(lambda: not self.is_writing(), "the answer's end")

    def answer(self):
        return self.all("#messages article.assistant")[-1]

    def answer_text(self) -> str:
        return self.answer().find_element(By.CSS_SELECTOR, ":scope > .text").text

    def press(self, label: str, within=None):
        (within or self.driver).find_element(By.CSS_SELECTOR, f"[aria-label='{label}']").click()

    def reload(self):
        self.driver.refresh()
        self.wait(self.is_ready, "the page is built again")

    def set_field(self, name: str, value: str):
        self.find("#settings-open").click()
        self.find(f"#set-{name}").send_keys(value)
        self.find("#settings .main").click()

    def bring(self, conversations: list):
        """Imports a file of conversations."""
        path = Path(self.folder) / "conversations.json"
        path.write_text(json.dumps({"format": "minfer-conversations", "version": 1, "conversations": conversations}))
        self.find("#import-file").send_keys(str(path))

    def shot(self, name: str):
        if SHOTS:
            self.driver.save_screenshot(str(Path(SHOTS) / f"{name}.png"))

    def complaints(self) -> list:
        """What the browser complains of, refused requests aside."""
        return [line["message"] for line in self.driver.get_log("browser") if "the server responded with a status" not in line["message"]]


def conversation(question: str, answer: str, title="Imported") -> dict:
    messages = {"a": {"id": "a", "parent": None, "role": "user", "content": question, "created": 1},
                "b": {"id": "b", "parent": "a", "role": "assistant", "content": answer, "created": 2}}
    return {"title": title, "named": True, "created": 1, "updated": 2, "system": "", "leaf": "b", "messages": messages}


class WebTest(unittest.TestCase):
    program = ""
    server = None

    @classmethod
    def setUpClass(cls):
        cls.server = serve(cls.program)
        cls.addClassCleanup(cls.server.kill)

    def open(self, server=None, **options) -> Page:
        holder = tempfile.TemporaryDirectory(prefix="minfer-web-test-")
        self.addCleanup(holder.cleanup)
        page = Page((server or self.server).address, holder.name, **options)
        self.addCleanup(page.driver.quit)
        return page

    def ask(self, path: str, body: dict) -> dict:
        request = urllib.request.Request(self.server.address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            return json.load(response)

    def test_send_stream_and_reload(self):
        page = self.open()
        page.knows_model()
        self.assertEqual(page.complaints(), [])
        page.set_field("temperature", "0")
        page.set_field("max_tokens", "24")
        page.send("What is the capital of France?")
        asked = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0, "max_tokens": 24}
        expected = self.ask("/v1/chat/completions", asked)
        said = expected["choices"][0]["message"]["content"]
        self.assertEqual(page.answer_text().split(), said.split())
        self.assertIn("tokens/s", page.answer().text)
        self.assertIn(f"{expected['usage']['completion_tokens']} tokens", page.answer().text)
        self.assertIn(f"of {CONTEXT:,} tokens", page.find("#fill-text").text)
        self.assertTrue(page.driver.title.startswith("What is the capital of France?"))
        page.send("And of Italy?")
        second = page.answer_text()
        page.reload()
        page.wait(lambda: len(page.all("#messages article")) == 4, "the kept messages")
        self.assertEqual(page.answer_text(), second)
        self.assertEqual(page.complaints(), [])
        page.shot("light")

    def test_text_grows_and_stops(self):
        page = self.open()
        page.set_field("temperature", "0")  # a small model that takes the likeliest token tells on and on
        page.write("Write a very long story about a dragon, with many chapters.")
        page.wait(lambda: page.all("#messages .assistant") and len(page.answer_text()) > 20, "the first words")
        self.assertTrue(page.is_writing())
        first = len(page.answer_text())
        page.wait(lambda: len(page.answer_text()) > first or not page.is_writing(), "more words")
        self.assertTrue(page.is_writing(), "the answer was too short to be stopped")
        page.find("#input").send_keys(Keys.ESCAPE)
        page.wait(lambda: not page.is_writing(), "the end")
        self.assertIn("stopped", page.answer().text)
        text = page.answer_text()
        page.reload()
        page.wait(lambda: page.all("#messages .assistant"), "the kept answer")
        self.assertEqual(page.answer_text(), text)

    def test_again_and_edit_keep_versions(self):
        page = self.open()
        page.set_field("max_tokens", "8")
        page.send("Hello")
        page.press("Answer again", page.answer())
        page.wait(lambda: "2 / 2" in page.answer().text, "the second version")
        page.press("The version before", page.answer())
        page.wait(lambda: "1 / 2" in page.answer().text, "the first version")
        question = page.find("#messages .user")
        page.press("Edit", question)
        area = question.find_element(By.TAG_NAME, "textarea")
        area.clear()
        area.send_keys("Good day", Keys.ENTER)
        page.wait(lambda: page.find("#messages .user .text").text == "Good day", "the edited question")
        page.wait(lambda: not page.is_writing(), "its answer")
        self.assertIn("2 / 2", page.find("#messages .user").text)
        self.assertEqual(page.complaints(), [])

    def test_errors_are_told(self):
        page = self.open()
        page.script("document.getElementById('input').value = arguments[0]", "word " * 2 * CONTEXT)
        page.send(".")
        error = page.answer().find_element(By.CSS_SELECTOR, ".error")
        self.assertTrue(error.is_displayed())
        self.assertIn(str(CONTEXT), error.text)
        page.shot("error")
        with_key = serve(self.program, "--api-key", "sesame")
        self.addCleanup(with_key.kill)
        guarded = self.open(with_key)
        guarded.wait(lambda: "API key" in guarded.find("#banner").text, "the wish for a key")
        guarded.find("#banner-action").click()
        guarded.find("#key").send_keys("sesame", Keys.TAB)
        guarded.find("#settings .main").click()
        guarded.knows_model()
        guarded.set_field("max_tokens", "4")
        guarded.send("Hello")
        self.assertFalse(guarded.answer().find_element(By.CSS_SELECTOR, ".error").is_displayed())
        with_key.stop()
        guarded.send("Are you there?")
        self.assertIn("can\u2019t be reached", guarded.answer().text)

    def test_conversations_and_files(self):
        page = self.open()
        page.set_field("max_tokens", "4")
        page.send("First")
        page.find("#new").click()
        page.send("Second")
        self.assertEqual([row.text for row in page.all("#list .name")], ["Second", "First"])
        page.press("Rename: Second")
        page.find("#ask-input").clear()
        page.find("#ask-input").send_keys("Renamed", Keys.ENTER)
        page.wait(lambda: page.find("#title").text == "Renamed", "the new name")
        file = json.loads(page.driver.execute_async_script(
            "const done = arguments[0], make = URL.createObjectURL;"
            "URL.createObjectURL = (blob) => { blob.text().then(done); return make.call(URL, blob); };"
            "document.getElementById('export-all').click();"))
        self.assertEqual(sorted(one["title"] for one in file["conversations"]), ["First", "Renamed"])
        page.bring(file["conversations"])
        page.wait(lambda: len(page.all("#list li")) == 4, "the imported ones")
        page.find("#list .current [title='Delete']").click()
        page.find("#ask-ok").click()
        page.wait(lambda: len(page.all("#list li")) == 3, "one less")
        page.reload()
        page.wait(lambda: len(page.all("#list li")) == 3, "the same after a reload")
        page.bring([{"messages": {"a": {"role": "robot", "content": ""}}}])
        page.wait(lambda: "can\u2019t be imported" in page.find("#banner").text, "the refusal")

    def test_text_never_becomes_markup(self):
        page = self.open()
        hostile = ("<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\n\n"
                   "[bad](javascript:document.title='owned') [good](https://example.com/a_(b)) ![pixel](https://example.com/p.png)\n\n"
                   "| a | <b>b</b> |\n|---|---|\n| `x|y` | <iframe src=//example.com> |\n\n```html\n<script>1</script>\n```\n")
        page.bring([conversation("<b>question</b>", hostile)])
        page.wait(lambda: page.all("#messages .assistant"), "the conversation")
        self.assertEqual(page.find("#messages .user .text").text, "<b>question</b>")
        self.assertEqual(page.all("#messages img, #messages script, #messages iframe, #messages b"), [])
        links = [link.get_attribute("href") for link in page.all("#messages a")]
        self.assertEqual(links, ["https://example.com/a_(b)", "https://example.com/p.png"])
        self.assertIn("javascript:document.title", page.answer_text())
        self.assertEqual(page.find("#messages pre").text, "<script>1</script>")
        self.assertEqual([cell.text for cell in page.all("#messages td")], ["x|y", "<iframe src=//example.com>"])
        self.assertNotIn("owned", page.driver.title)
        page.script("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title=1\">')")
        page.wait(lambda: any("Content Security Policy" in line for line in page.complaints()), "the policy's refusal")

    def test_markdown(self):
        page = self.open()
        text = ("# Head\n\nOne *two* **three** `four` snake_case_name 2 * 3 * 4\nnext\n\n1. a\n   - b\n   - c\n2. d\n\n> quote\n\n"
                "- [x] done\n\n~~gone~~ <https://example.com>\n\n```python\ndef f():\n    return 1  # one\n```\n")
        page.bring([conversation("q", text)])
        page.wait(lambda: page.all("#messages .assistant h3"), "the heading")
        count = lambda selector: len(page.all(f"#messages .assistant .text {selector}"))
        for selector, number in {"em": 1, "strong": 1, "p > code": 1, "br": 1, "ol > li": 2, "ol ul > li": 2, "blockquote": 1,
                                 "input:checked": 1, "del": 1, "a": 1, "pre .hl-word": 2, "pre .hl-comment": 1}.items():
            self.assertEqual(count(selector), number, selector)
        self.assertEqual(page.find("#messages pre").text, "def f():\n    return 1  # one")
        self.assertIn("snake_case_name 2 * 3 * 4", page.answer_text())

    def test_keyboard_theme_and_phone(self):
        page = self.open(width=PHONE[0], height=PHONE[1], dark=True)
        page.knows_model()
        back = lambda: page.script("return getComputedStyle(document.body).backgroundColor")
        dark = back()
        page.find("#theme").click()
        self.assertNotEqual(back(), dark)
        page.reload()
        self.assertEqual(page.script("return document.documentElement.dataset.theme"), "light")
        self.assertLessEqual(page.script("return document.documentElement.scrollWidth"), PHONE[0])
        self.assertFalse(page.find("#side").is_displayed())
        page.find("#side-open").click()
        page.wait(page.find("#new").is_displayed, "the drawer")
        page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        page.wait(lambda: not page.find("#new").is_displayed(), "the drawer is closed")
        page.bring([conversation("q", "word " * 100 + "\n\n```\n" + "x" * 300 + "\n```")])
        page.wait(lambda: page.all("#messages pre"), "the text")
        self.assertLessEqual(page.script("return document.documentElement.scrollWidth"), PHONE[0])
        page.shot("phone")
        page.script("document.activeElement.blur()")
        page.find("body").send_keys("?")
        self.assertTrue(page.find("#keys").is_displayed())
        page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        page.find("body").send_keys(Keys.ALT, Keys.SHIFT, "n")
        page.wait(lambda: not page.all("#messages article"), "a new conversation")
        unlabeled = page.script("return [...document.querySelectorAll(':is(button, input, textarea, select):not([hidden])')].filter((node) =>"
                                "!(node.textContent.trim() || node.ariaLabel || node.labels?.length || node.getAttribute('aria-labelledby')"
                                " || node.title)).map((node) => node.outerHTML)")
        self.assertEqual(unlabeled, [])


if __name__ == "__main__":
    lacking = missing()
    if lacking:
        print(f"web_test: skipped, for it lacks {lacking}")
        sys.exit(1 if os.environ.get("MINFER_REQUIRE_MODELS") == "1" else 0)
    WebTest.program = sys.argv.pop(1)
    unittest.main()
