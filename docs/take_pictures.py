"""Take the pictures of the page: python docs/take_pictures.py, with Chromium and Playwright at hand.

A model is trained on the tiny simulated shop, exported and served; nothing is left but the pictures.
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
READER = "#tab=readers&user=403&top=10"
STUDIO = "#tab=studio&bundle=90&top=20"


def main() -> None:
    """Train, serve, look."""
    with TemporaryDirectory() as space:
        dataset = clbr.simulate("tiny").dataset
        clbr.fit(dataset, "crosscbr", epochs=20, rate=0.01, out=f"{space}/run")
        clbr.export(f"{space}/run", f"{space}/desk", data=dataset)
        words = ["serve", f"{space}/desk", "--port", "0", "--words", "customer,kit,product", "--log", "error"]
        command = [sys.executable, "-c", "from clbr.cli import main; main()", *words]
        service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert service.stdout is not None
            take(service.stdout.readline().split("answers at ")[1].split()[0])
        finally:
            service.kill()
            service.communicate()


def take(address: str) -> None:
    """Both pictures, as someone would see them who works with the page."""
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_context(viewport=SIZE, reduced_motion="reduce", color_scheme="light").new_page()
        page.goto(f"{address}/{READER}")
        page.get_by_role("button", name="Strike out Garden starter kit").click()
        page.locator(".ranking.moved").wait_for()
        page.locator(".why:visible").last.click()
        page.get_by_role("button", name="Strike out and see").wait_for()
        page.mouse.move(0, 0)
        page.screenshot(path=PICTURES / "readers.png", full_page=True)
        page.goto(f"{address}/{STUDIO}")
        page.get_by_role("button", name="Remove").nth(2).click()
        page.locator(".bars.changed").wait_for()
        page.get_by_role("button", name="Find good swaps").click()
        page.locator(".swaps li").first.wait_for()
        page.mouse.move(0, 0)
        page.screenshot(path=PICTURES / "studio.png", full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
