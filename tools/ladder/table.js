// SPDX-License-Identifier: BSD-2-Clause
// The same messages as text: a table, in pages. For screen readers, for copying, for paper.
'use strict';

const TABLE_ROWS = 200, PRINT_ROWS = 1000, PRINT_HEIGHT = 1500, PRINT_CHUNKS = 12;
let tablePage = 0;

function tableRow(item) {
	const packet = isPacket(item);
	const row = element('tr', { 'data-item': item, 'aria-selected': String(item === VIEW.selected) },
		element('td', {}, String(item + 1)), element('td', {}, timeText(sentAt(item))),
		element('td', {}, packet ? laneText(P.from[item]) : laneText(eventOf(item).lane)),
		element('td', {}, packet ? laneText(P.to[item]) : ''),
		element('td', { style: ['--c', `var(--${colourName(item)})`] },
			element('button', { type: 'button', class: 'what', onclick: () => select(item, false) }, packet ? packetName(item) : eventLabel(item))),
		element('td', {}, packet && !flagged(item, MEMORY) ? String(P.psn[item]) : ''),
		element('td', {}, packet && P.bytes[item] ? String(P.bytes[item]) : ''),
		element('td', {}, packet ? itemNotes(item) : eventOf(item).json.event));
	return row;
}

function tableOf(items, caption) {
	const head = ['No.', 'Time', 'From', 'To', 'What', 'PSN', 'Bytes', 'Notes'].map(name => element('th', { scope: 'col' }, name));
	return element('table', {}, element('caption', {}, caption), element('thead', {}, element('tr', {}, ...head)),
		element('tbody', {}, ...Array.from(items, tableRow)));
}

function showTable() {
	const pages = Math.max(1, Math.ceil(PLACE.items.length / TABLE_ROWS));
	tablePage = Math.max(0, Math.min(tablePage, pages - 1));
	const from = tablePage * TABLE_ROWS, items = PLACE.items.slice(from, from + TABLE_ROWS);
	const turn = by => () => { tablePage += by; showTable(); $('table').scrollTop = 0; };
	const page = (name, by) => element('button', { type: 'button', onclick: turn(by),
		...(tablePage + by < 0 || tablePage + by >= pages ? { disabled: '' } : {}) }, name);
	const bar = () => pages > 1 ? element('div', { class: 'pages' }, page('\u2190 Earlier', -1),
		'Page ' + (tablePage + 1) + ' of ' + pages, page('Later \u2192', 1)) : '';
	$('table').replaceChildren(tableOf(items, PLACE.items.length ? 'Messages ' + (from + 1) + ' to ' + (from + items.length) + ' of ' +
		PLACE.items.length + ', by time. Times since the first.' : 'No message fits the filters.'), bar());
	if (pages > 1)
		$('table').prepend(bar());
}

function tableShows(item) {
	const at = PLACE.items.indexOf(item);
	if (at < 0)
		return;
	tablePage = Math.floor(at / TABLE_ROWS);
	showTable();
	$('table').querySelector(`[data-item="${item}"]`)?.scrollIntoView({ block: 'nearest' });
}

// ---- paper ----

// The chart in pieces that fit a page, in light colours; of a long one what the window shows. Below it the table.
function preparePrint() {
	const root = document.documentElement, before = root.dataset.theme, box = $('print'), row = VIEW.row;
	root.dataset.theme = 'light';
	readTheme();
	box.replaceChildren();
	let top = 0, bottom = PLACE.height;
	if (bottom > PRINT_HEIGHT * PRINT_CHUNKS) {
		top = scroller.scrollTop;
		bottom = top + scroller.clientHeight;
		box.append(element('p', {}, 'The part of the chart that the window showed; the table below is of the first ' + PRINT_ROWS + ' messages.'));
	}
	for (; top < bottom; top += PRINT_HEIGHT) {
		const paper = document.createElement('canvas'), height = Math.min(PRINT_HEIGHT, bottom - top);
		paper.width = PLACE.width * 2;
		paper.height = (height + 44) * 2;
		const c = paper.getContext('2d');
		c.setTransform(2, 0, 0, 2, 0, 0);
		c.save();
		c.translate(0, 44);
		c.beginPath();
		c.rect(0, 0, PLACE.width, height);
		c.clip();
		drawInto(c, 0, top, PLACE.width, height);
		c.restore();
		drawPrintHeads(c);
		box.append(element('img', { src: paper.toDataURL('image/png'), alt: 'Message sequence chart; the table below is the same as text' }));
	}
	VIEW.row = row;
	$('table').replaceChildren(tableOf(PLACE.items.slice(0, PRINT_ROWS), 'The messages of the chart as a table'));
	if (before === undefined)
		delete root.dataset.theme;
	else
		root.dataset.theme = before;
	readTheme();
}

function drawPrintHeads(c) {
	c.fillStyle = '#fff';
	c.fillRect(0, 0, PLACE.width, 44);
	c.textAlign = 'center';
	for (const lane of PLACE.lanes) {
		c.fillStyle = '#555';
		c.font = SMALL;
		c.fillText(laneGroup(lane), PLACE.x[lane], 14);
		c.fillStyle = '#000';
		c.font = FONT;
		c.fillText(laneName(lane), PLACE.x[lane], 32);
	}
}
