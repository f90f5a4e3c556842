"""Take the pictures of the page: python docs/take_pictures.py. Needs Chromium and Playwright.

Trains a model on the tiny simulated data set and serves it. Only the pictures are written.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

import clbr

PICTURES = Path(__file__).parent / "pictures"
SIZE = {"width": 1280, "height": 900}
USER = "#tab=users&user=403&k=10"
BUNDLE = "#tab=bundles&bundle=90&k=20"
DRAFTS = "#tab=drafts&a=3&a=7&a=12&b=3&b=40&k=20"


def main() -> None:
    """Train, serve, take the pictures."""
    with TemporaryDirectory() as space:
        recommender = clbr.fit(clbr.simulate("tiny").dataset, "crosscbr", epochs=20, learning_rate=0.01)
        folder = recommender.save(f"{space}/recommender")
        options = ["--port", "0", "--words", "customer,kit,product", "--log", "error"]
        command = [sys.executable, "-c", "from clbr.cli import main; main()", "serve", str(folder), *options]
        service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert service.stdout is not None
            take(service.stdout.readline().split("answers at ")[1].split()[0])
        finally:
            service.kill()
            service.communicate()


def take(address: str) -> None:
    """Take the pictures: a user and a bundle, each after an edit and a question, and two drafts."""
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_context(viewport=SIZE, reduced_motion="reduce", color_scheme="light").new_page()
        page.goto(f"{address}/{USER}")
        page.get_by_role("button", name="Remove Garden starter kit").click()
        page.locator(".ranking.moved").wait_for()
        page.locator(".why:visible").last.click()
        page.get_by_role("button", name="Remove and see").wait_for()
        page.mouse.move(0, 0)
        page.locator(".waiting").first.wait_for(state="detached")
        page.screenshot(path=PICTURES / "readers.png", full_page=True)
        page.goto(f"{address}/{BUNDLE}")
        page.get_by_role("button", name="Remove").nth(2).click()
        page.locator(".bars.changed").wait_for()
        page.get_by_role("button", name="Find good swaps").click()
        page.locator(".swaps li").first.wait_for()
        page.mouse.move(0, 0)
        page.screenshot(path=PICTURES / "studio.png", full_page=True)
        page.goto(f"{address}/{DRAFTS}")
        page.get_by_text("would have both").wait_for()
        page.screenshot(path=PICTURES / "drafts.png", full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
