#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Pages of `verbatim ladder` in Chromium, without a screen:  browser.py PAGE [LARGE PACKED PLAIN]

With PAGE alone one test: the page loads, says nothing on the console, draws, and its parts lie where they
should. With TEST_LONG all that a reader does; LARGE is a page of 100,000 packets, PACKED and PLAIN are of one
trace. Prints TAP. Screenshots go into TEST_SCREENSHOTS if that is set."""
import os
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

FLAGS = ('--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
         '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage', '--lang=en')

# How many pixels of a part of the screenshot differ from its most frequent colour, and how many colours there are.
PIXELS = '''
const [data, box, done] = arguments, image = new Image();
image.onload = () => {
    const paper = document.createElement('canvas');
    paper.width = image.width; paper.height = image.height;
    const c = paper.getContext('2d');
    c.drawImage(image, 0, 0);
    const pixels = new Uint32Array(c.getImageData(box.x, box.y, box.width, box.height).data.buffer);
    const count = new Map();
    for (const pixel of pixels)
        count.set(pixel, (count.get(pixel) ?? 0) + 1);
    const [most, times] = [...count].sort((a, b) => b[1] - a[1])[0];
    done([pixels.length - times, count.size, (most & 255) + (most >> 8 & 255) + (most >> 16 & 255)]);
};
image.onerror = () => done(null);
image.src = 'data:image/png;base64,' + data;
'''


class Browser:
    def __init__(self, profile):
        options = Options()
        for flag in FLAGS + ('--user-data-dir=' + profile,):
            options.add_argument(flag)
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
        self.driver = webdriver.Chrome(service=Service('/usr/bin/chromedriver'), options=options)
        self.driver.set_page_load_timeout(120)
        self.driver.set_script_timeout(120)
        self.number, self.failed = 0, 0

    def open(self, path, width=1280, height=800):
        self.driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
            'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': False})
        self.driver.get('file://' + os.path.abspath(path))
        equal(self.run('return document.documentElement.dataset.ready'), 'yes', 'the scripts ran to their end')
        self.frame()

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def frame(self):
        """Until what was asked for is drawn."""
        self.driver.execute_async_script(
            'requestAnimationFrame(() => requestAnimationFrame(() => arguments[0]()))')

    def keys(self, *keys):
        chain = ActionChains(self.driver)
        for key in keys:
            chain.send_keys(key)
        chain.perform()
        self.frame()

    def shot(self, name):
        directory = os.environ.get('TEST_SCREENSHOTS')
        if directory:
            self.driver.save_screenshot(os.path.join(directory, name + '.png'))

    def pixels(self, element):
        """(pixels that are drawn on, colours, brightness of the ground) of what the screen shows of an element."""
        box = self.run('const b = document.getElementById(arguments[0]).getBoundingClientRect(); '
                       'return {x: b.x, y: b.y, width: b.width, height: Math.min(b.height, innerHeight - b.y)}',
                       element)
        # The policy of the page forbids it to load anything but data: URLs, which this is.
        return self.driver.execute_async_script(PIXELS, self.driver.get_screenshot_as_base64(), box)

    def console(self):
        """What was said, but by the browser's own pages, and about the way in which these tests read pixels."""
        return [entry['message'] for entry in self.driver.get_log('browser')
                if 'willReadFrequently' not in entry['message'] and not entry['message'].startswith('chrome://')]

    def check(self, name, test):
        self.number += 1
        try:
            test()
            print('ok %d - %s' % (self.number, name), flush=True)
        except Exception as error:                          # a driver's error is a failure like others
            self.failed += 1
            lines = ('%s: %s' % (type(error).__name__, error)).split('\n')[:12]
            print('\n'.join('# ' + line for line in lines))
            print('not ok %d - %s' % (self.number, name), flush=True)
            self.shot('failed-%d' % self.number)


def equal(got, wanted, what):
    assert got == wanted, '%s: %r and not %r' % (what, got, wanted)


# ---- what the tests look at ----

def parts_do_not_overlap(browser):
    """Chart, bar and title lie below each other inside the window; headings above their lines."""
    boxes = browser.run('return ["top", "bar", "heads", "scroller"].map(id => { const b = '
                        'document.getElementById(id).getBoundingClientRect(); '
                        'return [b.top, b.bottom, b.left, b.right]; })')
    for above, below in zip(boxes, boxes[1:]):
        assert above[1] <= below[0] + 1, 'parts overlap: %r' % boxes
    width, height, wide = browser.run('return [innerWidth, innerHeight, document.documentElement.scrollWidth]')
    assert boxes[-1][1] <= height + 1 and boxes[-1][3] <= width, 'the chart is outside: %r' % boxes[-1]
    high = boxes[-1][1] - boxes[-1][0]
    assert high >= 150, 'the chart is %d pixels high' % high
    assert wide <= width, 'the page is %d pixels wide, the window %d' % (wide, width)


def page_draws(browser, page):
    browser.open(page)
    drawn, colours, ground = browser.pixels('canvas')
    browser.shot('chart')
    assert drawn > 3000 and colours > 20, '%d pixels drawn in %d colours' % (drawn, colours)
    assert ground > 650, 'the ground is not light: %d' % ground
    parts_do_not_overlap(browser)
    equal(browser.console(), [], 'console')
    assert browser.run('return document.querySelectorAll(".lane").length') >= 2, 'no headings'


def item_place(browser, item):
    return browser.run('''const item = arguments[0], e = ends(item), box = canvas.getBoundingClientRect();
        scroller.scrollTop = e.y0 - 100; draw();
        return [box.left + (e.x0 + e.x1) / 2 - scroller.scrollLeft,
                box.top + (e.y0 + e.y1) / 2 - scroller.scrollTop];''', item)


def click_explains(browser, page):
    browser.open(page)
    for item in range(browser.run('return Math.min(4, PACKETS)')):
        x, y = item_place(browser, item)
        ActionChains(browser.driver).move_by_offset(0, 0).perform()
        for kind in ('mousePressed', 'mouseReleased'):
            browser.driver.execute_cdp_cmd('Input.dispatchMouseEvent', {
                'type': kind, 'x': x, 'y': y, 'button': 'left', 'clickCount': 1})
        browser.frame()
        equal(browser.run('return VIEW.selected'), item, 'chosen')
    text = browser.driver.find_element(By.ID, 'details-body').text
    for word in ('BTH', 'IBTA 9.2', 'destination QP', 'PSN', 'UDP', 'IPv4'):
        assert word in text, 'no %r in the details' % word
    psn = browser.run('const item = VIEW.selected; '
                      'return [P.psn[item], Number(bits(rawOf(item).subarray(P.bth[item]), 72, 24))]')
    equal(psn[0], psn[1], 'PSN of the bytes')
    browser.shot('details')


def keyboard_does_it_all(browser, page):
    browser.open(page)
    browser.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    equal(browser.run('return PLACE.items.indexOf(VIEW.selected)'), 1, 'after two steps')
    assert browser.run('return document.getElementById("live").textContent'), 'nothing is said to screen readers'
    browser.keys(Keys.ARROW_UP)
    equal(browser.run('return PLACE.items.indexOf(VIEW.selected)'), 0, 'one step back')
    browser.keys(Keys.ENTER)
    equal(browser.run('return document.activeElement.id'), 'details-body', 'focus')
    browser.keys(Keys.ESCAPE)
    assert browser.run('return document.getElementById("details").hidden'), 'Esc does not close'
    browser.keys('t')
    assert not browser.run('return document.getElementById("table").hidden'), 'no table'
    browser.keys('t', '?')
    assert browser.run('return document.getElementById("help").open'), 'no help'
    browser.shot('help')
    browser.keys(Keys.ESCAPE, '/')
    equal(browser.run('return document.activeElement.id'), 'search', 'focus')


def search_finds(browser, page):
    browser.open(page)
    psn = browser.run('return P.psn[PACKETS - 1]')
    browser.keys('/', 'psn %d' % psn)
    deadline = time.monotonic() + 10
    while not browser.run('return hits.length') and time.monotonic() < deadline:
        browser.frame()
    browser.frame()
    found = browser.run('return hits.some(item => isPacket(item) && P.psn[item] === arguments[0])', psn)
    assert found, 'not found'
    assert browser.run('return hits.includes(VIEW.selected)'), 'none of them was chosen'
    assert browser.run('return hits.every(item => matches(item))'), 'hits that do not match'
    browser.run('document.getElementById("only").click()')
    browser.frame()
    equal(browser.run('return PLACE.items.length'), browser.run('return hits.length'), 'only matches')
    browser.run('document.getElementById("only").click()')
    browser.driver.find_element(By.ID, 'search').send_keys('zzzz')
    deadline = time.monotonic() + 10
    while browser.run('return hits.length') and time.monotonic() < deadline:
        browser.frame()
    equal(browser.run('return [hits.length, document.getElementById("hits").textContent]'), [0, '0'], 'no match')


def filters_hide(browser, page):
    browser.open(page)
    everything = browser.run('return PLACE.items.length')
    chip = browser.driver.find_elements(By.CSS_SELECTOR, '.chip')[0]
    kind = chip.get_attribute('data-kind')
    chip.click()
    browser.frame()
    left = browser.run('return PLACE.items.length')
    assert left < everything, 'nothing was hidden'
    assert browser.run('return PLACE.items.every(i => KINDS[kindOf(i)][0] !== arguments[0])', kind), 'still there'
    chip.click()
    browser.frame()
    equal(browser.run('return PLACE.items.length'), everything, 'shown again')
    browser.run('document.getElementById("lanes-menu").open = true')
    lanes = browser.run('return PLACE.lanes')
    browser.driver.find_element(By.CSS_SELECTOR, '[data-lane="%d"]' % lanes[0]).click()
    browser.frame()
    equal(browser.run('return PLACE.lanes'), lanes[1:], 'queue pairs')


def zoom_keeps_its_place(browser, page):
    browser.open(page)
    browser.run('scroller.scrollTop = PLACE.height / 3; draw()')
    before = browser.run('return [VIEW.row, timeAt(scroller.scrollTop + scroller.clientHeight / 2)]')
    browser.keys('+', '+')
    after = browser.run('return [VIEW.row, timeAt(scroller.scrollTop + scroller.clientHeight / 2)]')
    assert after[0] > before[0] * 1.5, 'row %r' % after[0]
    span = browser.run('return timeAt(PLACE.height)')
    assert abs(after[1] - before[1]) < span / 50, 'the middle moved: %r, %r, of %r' % (before, after, span)
    browser.keys('0')
    all_seen = browser.run('return PLACE.height <= scroller.clientHeight + 1 || VIEW.row <= ROW_MIN')
    assert all_seen, 'not all is in the window'
    browser.keys('c')
    height = browser.run('return PLACE.height')
    assert height > 0 and not browser.run('return VIEW.compress'), 'true time'


def dark_is_dark(browser, page):
    dark = {'features': [{'name': 'prefers-color-scheme', 'value': 'dark'}]}
    browser.driver.execute_cdp_cmd('Emulation.setEmulatedMedia', dark)
    browser.open(page)
    drawn, _, ground = browser.pixels('canvas')
    browser.shot('dark')
    assert drawn > 3000 and ground < 150, 'ground of %d' % ground
    browser.keys('d')
    _, _, ground = browser.pixels('canvas')
    assert ground > 650, 'the switch does not make it light: %d' % ground
    browser.driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': []})


def narrow_is_usable(browser, page):
    browser.open(page, 400, 720)
    parts_do_not_overlap(browser)
    drawn, colours, _ = browser.pixels('canvas')
    browser.shot('narrow')
    assert drawn > 2000 and colours > 15, '%d pixels drawn in %d colours' % (drawn, colours)
    browser.keys(Keys.ARROW_DOWN)
    box = browser.run('const b = document.getElementById("details").getBoundingClientRect(); '
                      'return [b.left, b.right, b.top]')
    assert box[0] >= 0 and box[1] <= 400 and box[2] > 100, 'details at %r' % box


def table_is_the_text(browser, page):
    browser.open(page)
    browser.keys('t')
    rows = browser.driver.find_elements(By.CSS_SELECTOR, '#table tbody tr')
    equal(len(rows), browser.run('return Math.min(PLACE.items.length, TABLE_ROWS)'), 'rows')
    scopes = browser.run('return [...document.querySelectorAll("#table th")].map(th => th.scope)')
    equal(set(scopes), {'col'}, 'scope')
    equal(browser.run('return document.querySelectorAll("#table caption").length'), 1, 'captions')
    browser.shot('table')


def paper_is_sensible(browser, page):
    browser.open(page)
    browser.driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {'media': 'print'})
    browser.run('preparePrint()')
    shown = browser.run('return [...document.querySelectorAll("#print img")].length')
    assert shown >= 1, 'no picture'
    for part in ('bar', 'chart', 'details'):
        display = browser.run('return getComputedStyle(document.getElementById(arguments[0])).display', part)
        equal(display, 'none', part)
    assert browser.run('return document.querySelectorAll("#table tbody tr").length'), 'no table'
    browser.shot('print')
    browser.driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {'media': ''})


TIME = '''
const times = [], action = arguments[0];
for (let i = 0; i < 15; i++) {
    const begin = performance.now();
    if (action === 'scroll') {
        scroller.scrollTop = PLACE.height * (i + 1) / 17;
        draw();
    } else if (action === 'zoom') {
        zoom(i % 2 ? 2 : .5);
        draw();
    } else if (action === 'far') {
        fit();
        draw();
    } else
        itemAt(400, scroller.scrollTop + 20 * i);
    canvas.getContext('2d').getImageData(0, 0, 1, 1);       // all is drawn
    times.push(performance.now() - begin);
}
return times;
'''
STEP_MS = 100       # of script, of each step with 100,000 packets


def many_packets_are_fluid(browser, large):
    browser.open(large)
    equal(browser.run('return PACKETS'), 100000, 'packets')
    for action in ('scroll', 'zoom', 'far', 'point'):
        # The fastest of some tries of each step: other programs take turns, too.
        steps = [min(step) for step in zip(*(browser.run(TIME, action) for _ in range(4)))]
        print('# %s: %.1f ms at most' % (action, max(steps)))
        assert max(steps) <= STEP_MS, '%s takes %.1f ms' % (action, max(steps))


def far_out_is_no_block(browser, large):
    """Sums: tracks with gaps between bars, and the words of each."""
    browser.open(large)
    browser.run('fit(); draw()')
    assert browser.run('const top = scroller.scrollTop; '
                       'return countBetween(top, top + scroller.clientHeight) > DENSE')
    drawn, colours, _ = browser.pixels('canvas')
    width, height = browser.run('return [canvas.clientWidth, canvas.clientHeight]')
    browser.shot('many-far')
    assert .02 < drawn / (width * height) < .7, '%d pixels drawn of %d' % (drawn, width * height)
    assert colours > 8, '%d colours' % colours
    bins = browser.run('return farBins(scroller.scrollTop, scroller.clientHeight)')
    assert max(one['rate'] for one in bins) > 0 and max(one['most'] for one in bins) > 0
    assert browser.run('return FAR.again[FAR.again.length - 1]') > 0, 'nothing was sent again'
    browser.run('VIEW.row = ROW; layoutRows(); sizeSpace(); scroller.scrollTop = PLACE.height / 2; draw()')
    browser.shot('many')


# What both forms of a page have of an item.
ITEM = '''
const item = arguments[0];
return JSON.stringify(isPacket(item)
    ? [packetLabel(item, 2), kindOf(item), colourName(item), [...rawOf(item)], commentPair(item),
        searchText(item), sentAt(item)]
    : [eventLabel(item), kindOf(item), colourName(item), eventOf(item).json, eventOf(item).latency,
        searchText(item)]);
'''


def packed_is_the_same(browser, packed, plain):
    """Every field of a compressed page is that of the page that is not."""
    seen = {}
    for page in (packed, plain):
        browser.open(page)
        equal(browser.run('return DATA.pack !== undefined'), page == packed, 'compressed')
        items = browser.run('return ITEMS')
        seen[page] = [browser.run(ITEM, item) for item in list(range(0, items, 997)) + [items - 1]]
        seen[page].append(browser.run('return [PACKETS, ITEMS, PLACE.items.length, problems.length, '
                                      'PLACE.height]'))
    for one, other in zip(seen[packed], seen[plain]):
        equal(one, other, 'item')


def main():
    page = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix='ladder-browser-') as profile:
        browser = Browser(profile)
        try:
            browser.check('the page loads in a browser, is quiet, draws, and its parts lie where they should',
                          lambda: page_draws(browser, page))
            if os.environ.get('TEST_LONG') and len(sys.argv) > 4:
                for name, test in (('a click on a packet explains its fields', click_explains),
                                   ('the keyboard does it all', keyboard_does_it_all),
                                   ('the search finds, and shows matches only', search_finds),
                                   ('filters hide kinds and queue pairs', filters_hide),
                                   ('zooming keeps its place', zoom_keeps_its_place),
                                   ('a dark system gets a dark page, and the switch a light one', dark_is_dark),
                                   ('a window of 400 pixels is enough', narrow_is_usable),
                                   ('the table has it all as text', table_is_the_text),
                                   ('on paper there are the chart and the table', paper_is_sensible)):
                    browser.check(name, lambda test=test: test(browser, page))
                browser.check('with 100,000 packets no step takes long',
                              lambda: many_packets_are_fluid(browser, sys.argv[2]))
                browser.check('zoomed out there are sums, and no block',
                              lambda: far_out_is_no_block(browser, sys.argv[2]))
                browser.check('a compressed page has what the other one has',
                              lambda: packed_is_the_same(browser, sys.argv[3], sys.argv[4]))
                browser.check('nothing is said on the console', lambda: equal(browser.console(), [], 'console'))
        finally:
            browser.driver.quit()
    print('1..%d' % browser.number)
    return 1 if browser.failed else 0


if __name__ == '__main__':
    sys.exit(main())
