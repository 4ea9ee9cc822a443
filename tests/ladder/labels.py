#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""labels.py PAGE... PICTURE.svg... INDEX.html: nothing that is written lies on something else, or is cut.

In Chromium, light and dark, 1280 and 800 pixels wide, by the boxes of the elements; of what the chart
paints on its canvas, by the boxes that it keeps of it. Also how a page opens: at its first packet, its
set-up folded, the client left. Prints TAP. Screenshots go into TEST_SCREENSHOTS."""
import os
import sys
import tempfile

from browser import Browser, equal

SIZES = ((1280, 800), (800, 900))
DARK = {'features': [{'name': 'prefers-color-scheme', 'value': 'dark'}]}

# What is cut or overlaps of the elements that hold words: each is [what, text, text of the other].
ELEMENTS = r'''
const wrong = [], shown = [];
for (const node of document.querySelectorAll(arguments[0])) {
    const box = node.getBoundingClientRect();
    if (!box.width || !node.textContent.trim() || !node.checkVisibility())
        continue;
    const text = node.textContent.trim();
    if (node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflowX !== 'visible')
        wrong.push(['cut', text, '']);
    if (box.left < -1 || box.right > innerWidth + 1)
        wrong.push(['outside', text, '']);
    for (const [other, otherBox] of shown)
        if (!other.contains(node) && !node.contains(other) &&
            box.left < otherBox.right - 1 && box.right > otherBox.left + 1 &&
            box.top < otherBox.bottom - 1 && box.bottom > otherBox.top + 1)
            wrong.push(['overlap', text, other.textContent.trim()]);
    shown.push([node, box]);
}
return wrong;
'''
# The same of the words on the canvas, which are drawn anew at each place.
CANVAS = r'''
const wrong = [];
let said = 0;
for (let at = 0; ; at += scroller.clientHeight / 2) {
    scroller.scrollTop = at;
    draw();
    const left = scroller.scrollLeft, right = left + scroller.clientWidth;
    taken.forEach((box, i) => {
        if (!box.text)
            return;
        said++;
        if (box.text.includes('\u2026') || box.x0 < left + GUTTER() || box.x1 > right)
            wrong.push(['cut', box.text, '']);
        taken.forEach((other, j) => {
            if (j !== i && (j < i || !other.text) && box.x0 < other.x1 && box.x1 > other.x0 &&
                box.y0 < other.y1 && box.y1 > other.y0)
                wrong.push(['overlap', box.text, other.text]);
        });
    });
    if (at + scroller.clientHeight >= PLACE.height)
        break;
}
scroller.scrollTop = 0;
draw();
return [wrong, said];
'''
PICTURE = r'''
const texts = [...document.querySelectorAll('text')].filter(text => text.textContent);
const wrong = [], all = texts.map(text => [text, text.getBBox()]);
const view = document.documentElement.viewBox.baseVal;
all.forEach(([text, box], i) => {
    if (/\.\.\.$|\u2026$/.test(text.textContent) || box.x < 0 || box.x + box.width > view.width ||
        box.y + box.height > view.height)
        wrong.push(['cut', text.textContent, '']);
    for (const [other, otherBox] of all.slice(0, i))
        if (box.x < otherBox.x + otherBox.width && box.x + box.width > otherBox.x &&
            box.y + 2 < otherBox.y + otherBox.height && box.y + box.height > otherBox.y + 2)
            wrong.push(['overlap', text.textContent, other.textContent]);
});
return wrong;
'''
OPENING = r'''
const first = MOMENTS.item.find(isPacket), box = ends(first);
const names = [...document.querySelectorAll('.process')].map(e => e.textContent);
return { scroll: scroller.scrollTop, y: box.y0, height: scroller.clientHeight, names,
    early: Array.from(PLACE.items).filter(item => sentAt(item) < sentAt(first)).map(item => itemLabel(item)),
    wide: scroller.scrollWidth - scroller.clientWidth };
'''
WORDS = '#title, #summary, #home, button, .check, .process, .lane, .lane b, .lane small, summary, #about-text p'


def nothing(wrong):
    assert not wrong, '%d: %r' % (len(wrong), wrong[:6])


def page_fits(browser, name):
    nothing(browser.run(ELEMENTS, WORDS))
    wrong, said = browser.run(CANVAS)
    nothing(wrong)
    assert said >= 6, 'only %d labels' % said
    browser.shot(name)


def page_opens(browser):
    opened = browser.run(OPENING)
    equal(opened['scroll'], 0, 'scrolled')
    assert opened['y'] < opened['height'] / 2, 'the first packet is %d pixels down' % opened['y']
    assert all(label.startswith('ibv_post_') for label in opened['early']), 'not folded: %r' % opened['early']
    equal(opened['names'], ['client', 'server'], 'lanes')
    equal(opened['wide'], 0, 'pixels that are outside')
    before = browser.run('return PLACE.items.length')
    browser.keys('f')
    assert browser.run('return PLACE.items.length') > before, 'f unfolds nothing'
    browser.keys('f')


def look(browser, path, width, height):
    browser.driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
        'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': False})
    browser.driver.get('file://' + os.path.abspath(path))


def check_picture(browser, path, name):
    look(browser, path, 1280, 800)
    nothing(browser.run(PICTURE))
    browser.shot(name)


def check_index(browser, path, name, size):
    look(browser, path, *size)
    nothing(browser.run(ELEMENTS, 'h1, h2, .lead, .card p'))
    browser.shot(name)


def check_page(browser, path, name, size):
    browser.open(path, *size)
    page_fits(browser, name)
    page_opens(browser)


def check_all(browser, paths, theme):
    for path in paths:
        base = os.path.basename(path).rsplit('.', 1)[0]
        if path.endswith('.svg'):
            browser.check('%s, %s: no label overlaps or is cut' % (base, theme),
                          lambda: check_picture(browser, path, '%s-%s' % (base, theme)))
            continue
        for size in SIZES:
            name, check = '%s-%s-%d' % (base, theme, size[0]), check_index if base == 'index' else check_page
            browser.check('%s, %s, %d pixels wide: no label overlaps or is cut' % (base, theme, size[0]),
                          lambda: check(browser, path, name, size))


def main():
    with tempfile.TemporaryDirectory(prefix='ladder-labels-') as profile:
        browser = Browser(profile)
        try:
            check_all(browser, sys.argv[1:], 'light')
            browser.driver.execute_cdp_cmd('Emulation.setEmulatedMedia', DARK)
            check_all(browser, sys.argv[1:], 'dark')
        finally:
            browser.driver.quit()
    print('1..%d' % browser.number)
    return 1 if browser.failed else 0


if __name__ == '__main__':
    sys.exit(main())
