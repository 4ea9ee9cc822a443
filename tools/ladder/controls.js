// SPDX-License-Identifier: BSD-2-Clause
// What the reader does: choose, search, filter, zoom, keys; and the start of it all.
'use strict';

let asTable = false;
let hits = [];
let problems = [];

// ---- choosing ----

// @scroll: bring it into the window, in the middle when it is outside.
function select(item, scroll) {
	VIEW.selected = item;
	if (item < 0) {
		hideDetails();
		redraw();
		return;
	}
	showDetails(item);
	$('live').textContent = itemLabel(item) + ', ' + (isPacket(item) ? laneText(P.from[item]) + ' to ' + laneText(P.to[item])
		: laneText(eventOf(item).lane)) + ', ' + timeText(sentAt(item)) + (itemNotes(item) ? ', ' + itemNotes(item) : '');
	if (!PLACE.shown[item]) {
		redraw();
		return;
	}
	if (asTable)
		tableShows(item);
	if (scroll)
		scrollToItem(item);
	layoutHeads();
	redraw();
}

function scrollToItem(item) {
	const a = beginY(item), b = endY(item);
	const hidden = $('details').hidden || innerWidth > 900 ? 0 : $('details').clientHeight;
	const height = Math.max(80, scroller.clientHeight - hidden);
	if (a < scroller.scrollTop + 24 || b > scroller.scrollTop + height - 24)
		scroller.scrollTop = (a + b) / 2 - height / 2;
	const lanes = isPacket(item) ? [P.from[item], P.to[item]] : [eventOf(item).lane];
	const left = Math.min(...lanes.map(l => PLACE.x[l])), right = Math.max(...lanes.map(l => PLACE.x[l]));
	if (left < scroller.scrollLeft + GUTTER() || right > scroller.scrollLeft + scroller.clientWidth - 20)
		scroller.scrollLeft = Math.max(0, (left + right) / 2 - scroller.clientWidth / 2);
}

function step(by) {
	const items = PLACE.items;
	if (!items.length)
		return;
	let at = VIEW.selected >= 0 ? items.indexOf(VIEW.selected) : -1;
	if (at < 0)
		at = by > 0 ? items.findIndex(item => beginY(item) >= scroller.scrollTop) - 1 : items.length;
	select(items[Math.max(0, Math.min(items.length - 1, at + by))], true);
}

// The next of a sorted list (by time) behind the chosen one, around the end.
function goTo(list, by) {
	if (!list.length)
		return;
	const now = VIEW.selected, at = list.indexOf(now);
	let next = at >= 0 ? at + by : by > 0 ? list.findIndex(item => now < 0 || sentAt(item) > sentAt(now)) : -1;
	if (next < 0 || next >= list.length)
		next = by > 0 ? 0 : list.length - 1;
	select(list[next], true);
	countHits();
}

// ---- filters and search ----

function relayout() {
	layoutItems();
	PLACE.stamp = (PLACE.stamp ?? 0) + 1;
	resize();
	problems = shownProblems();
	const button = $('problem-next'), wrong = problems.filter(isProblem).length, failed = problems.length - wrong;
	const counted = (count, what) => count + ' ' + what + (count === 1 ? '' : 's');
	button.textContent = (wrong ? '\u26a0 ' + counted(wrong, 'problem') : 'No problems') + (failed ? ', ' + counted(failed, 'failure') : '');
	button.title = 'Problems: packets lost, dropped, refused or sent again, each cause once. Failures: calls and completions with an error.';
	button.disabled = !problems.length;
	button.classList.toggle('problem', problems.length > 0);
	findHits();
	if (asTable)
		showTable();
}

// Problems and failures that are shown, by time.
function shownProblems() {
	const found = new Set(PROBLEM.keys());
	for (let at = E.failed.indexOf(1); at >= 0; at = E.failed.indexOf(1, at + 1))
		found.add(PACKETS + at);
	return [...found].filter(item => PLACE.shown[item]).sort((a, b) => PLACE.first[a] - PLACE.first[b]);
}

function findHits() {
	hits = VIEW.query.length ? Array.from(PLACE.items.filter(matches)) : [];
	countHits();
}

function countHits() {
	const at = hits.indexOf(VIEW.selected);
	$('hits').textContent = VIEW.query.length ? (at >= 0 ? at + 1 + '/' : '') + hits.length : '';
	$('hit-next').disabled = $('hit-previous').disabled = !hits.length;
}

let searchTimer = 0;
function onSearch() {
	clearTimeout(searchTimer);
	searchTimer = setTimeout(runSearch, 120);
}

function runSearch() {
	VIEW.query = $('search').value.toLowerCase().split(/\s+/).filter(word => word);
	if (VIEW.only || asTable || (VIEW.fold && FOLDS))
		relayout();
	else
		findHits();
	if (hits.length && !hits.includes(VIEW.selected))
		goTo(hits, 1);
	redraw();
}

function makeKinds() {
	KINDS.forEach(([name, title], kind) => {
		if (!DATA.kinds[kind])
			return;
		const chip = element('button', { type: 'button', class: 'chip', 'aria-pressed': 'true', 'data-kind': name,
			style: ['--c', `var(--${COLOUR[kind]})`], title: 'Show or hide', onclick: () => {
				const on = !VIEW.kinds.has(kind);
				VIEW.kinds[on ? 'add' : 'delete'](kind);
				chip.setAttribute('aria-pressed', String(on));
				relayout();
			} }, element('i'), title, element('b', {}, thousands(DATA.kinds[kind])));
		$('kinds').append(chip);
	});
}

function makeLanes() {
	let group = null;
	const panel = $('lanes-panel'), boxes = [];
	const all = element('div', { class: 'group' });
	for (const [name, on] of [['All', true], ['None', false]])
		all.append(element('button', { type: 'button', onclick: () => {
			boxes.forEach(box => { box.checked = on; });
			VIEW.lanes = new Set(on ? LANES.keys() : []);
			relayout();
		} }, name));
	panel.append(all);
	for (const lane of LANE_ORDER) {
		if (laneGroup(lane) !== group) {
			group = laneGroup(lane);
			panel.append(element('h3', {}, group));
		}
		const box = element('input', { type: 'checkbox', 'data-lane': lane, onchange: () => {
			VIEW.lanes[box.checked ? 'add' : 'delete'](lane);
			relayout();
		} });
		box.checked = true;
		boxes.push(box);
		panel.append(element('label', {}, box, laneName(lane) + (LANES[lane].address ? ' \u00b7 ' + LANES[lane].address : '')));
	}
}

// ---- zoom ----

// The moment under @anchor (pixels from the top of the window) stays there.
function zoom(factor, anchor = scroller.clientHeight / 2) {
	const row = (scroller.scrollTop + anchor - PAD_TOP) / VIEW.row;
	VIEW.row *= factor;
	layoutRows();
	sizeSpace();
	scroller.scrollTop = row * VIEW.row + PAD_TOP - anchor;
	redraw();
}

function fit() {
	const rows = PLACE.rows[PLACE.rows.length - 1] || 1;
	VIEW.row = Math.min(44, (scroller.clientHeight - PAD_TOP - PAD_BOTTOM) / rows);
	layoutRows();
	sizeSpace();
	scroller.scrollTop = 0;
	redraw();
}

// ---- sizes ----

function sizeSpace() {
	$('space').style.width = PLACE.width + 'px';
	$('space').style.height = Math.max(0, PLACE.height - scroller.clientHeight) + 'px';
}

function layoutHeads() {
	layoutLanes(scroller.clientWidth);
	sizeSpace();
	const inner = $('heads-inner'), made = [];
	inner.style.width = PLACE.width + 'px';
	const half = PLACE.gap ? PLACE.gap / 2 : 150;
	for (let at = 0; at < PLACE.lanes.length;) {
		const first = at, group = laneGroup(PLACE.lanes[at]);
		while (at < PLACE.lanes.length && laneGroup(PLACE.lanes[at]) === group)
			at++;
		const x0 = Math.max(GUTTER(), PLACE.x[PLACE.lanes[first]] - half), x1 = PLACE.x[PLACE.lanes[at - 1]] + half;
		const box = element('div', { class: 'process', title: group }, group);
		box.style.left = x0 + 6 + 'px';
		box.style.width = x1 - x0 - 12 + 'px';
		made.push(box);
	}
	for (const lane of PLACE.lanes) {
		const address = LANES[lane].process >= 0 ? LANES[lane].address : null;
		const head = element('div', { class: 'lane', title: laneText(lane) + (address ? ', ' + address : '') },
			element('b', { class: 'mono' }, laneName(lane)), address ? element('small', {}, address) : null);
		head.style.left = PLACE.x[lane] + 'px';
		head.style.maxWidth = Math.max(70, (PLACE.gap || 300) - 8) + 'px';
		made.push(head);
	}
	inner.replaceChildren(...made);
}

let sized = '';
const windowSize = () => scroller.clientWidth + ' ' + scroller.clientHeight;

function resize() {
	sized = windowSize();
	layoutHeads();
	redraw();
}

// ---- form, theme, help ----

function setForm(table) {
	asTable = table;
	$('chart').hidden = table;
	$('table').hidden = !table;
	$('as-chart').setAttribute('aria-pressed', String(!table));
	$('as-table').setAttribute('aria-pressed', String(table));
	if (table) {
		showTable();
		if (VIEW.selected >= 0)
			tableShows(VIEW.selected);
	} else {
		resize();
		if (VIEW.selected >= 0)
			scrollToItem(VIEW.selected);
	}
}

const systemDark = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => (document.documentElement.dataset.theme ?? (systemDark.matches ? 'dark' : 'light')) === 'dark';

function setTheme(name) {
	if (name)
		document.documentElement.dataset.theme = name;
	readTheme();
	$('theme').textContent = isDark() ? '\u2600' : '\u263e';
	$('theme').title = isDark() ? 'Light' : 'Dark';
	redraw();
}

const KEYS = [['\u2193 \u2191', 'next, previous message'], ['Enter', 'read its details'], ['n p', 'next, previous problem'], ['/', 'search'],
	['+ \u2212', 'zoom; Ctrl and wheel, too'], ['0', 'everything in the window'], ['c', 'shorten idle time, or true time'],
	['f', 'fold set-up, or show it'], ['t', 'table or chart'], ['d', 'light or dark'], ['Esc', 'close'], ['?', 'this']];

// Small pictures of how things are drawn: the same code draws them.
function legendPictures() {
	const pictures = [];
	const picture = (text, paint) => {
		const box = element('canvas');
		const c = sizeCanvas(box, 64, 22);
		paint(c);
		pictures.push(element('div', {}, box, text));
	};
	const arrow = (c, colour, dash, double) => {
		c.strokeStyle = c.fillStyle = colour;
		c.lineWidth = 1.6;
		c.setLineDash(dash);
		for (const y of double ? [9.4, 12.6] : [11]) {
			c.beginPath();
			c.moveTo(4, y);
			c.lineTo(56, y);
			c.stroke();
		}
		c.setLineDash([]);
		arrowHead(c, 60, 11, 0, 8);
	};
	picture('packet: sent, received', c => arrow(c, theme.send, []));
	picture('retransmission', c => arrow(c, theme.send, [7, 4]));
	picture('dropped where it arrived', c => {
		c.strokeStyle = theme.send;
		c.lineWidth = 1.6;
		c.beginPath();
		c.moveTo(4, 11);
		c.lineTo(58, 11);
		c.stroke();
		c.strokeStyle = theme.bad;
		c.lineWidth = 3;
		barred(c, 51, 11, 0, 7);
	});
	picture('lost on its way', c => {
		c.strokeStyle = theme.send;
		c.lineWidth = 1.6;
		c.beginPath();
		c.moveTo(4, 11);
		c.lineTo(42, 11);
		c.stroke();
		c.strokeStyle = theme.bad;
		c.lineWidth = 2.4;
		cross(c, 42, 11, 5);
	});
	picture('no packet: a store or copy in memory', c => arrow(c, theme.write, [], true));
	picture('through a ring in shared memory', c => arrow(c, theme.send, [2, 3]));
	const mark = (text, colour, shape) => picture(text, c => {
		c.fillStyle = colour;
		c.beginPath();
		shape(c);
		c.fill();
	});
	mark('call', theme.soft, c => c.rect(26, 8, 12, 6));
	mark('completion; red: failed', theme.good, c => c.arc(32, 11, 5, 0, 7));
	mark('state of a queue pair', theme.accent, c => { c.moveTo(32, 5); c.lineTo(38, 11); c.lineTo(32, 17); c.lineTo(26, 11); });
	picture('one ACK for all packets between', c => {
		c.strokeStyle = theme.ack;
		c.lineWidth = 1.4;
		c.beginPath();
		c.moveTo(36, 3);
		c.lineTo(30, 3);
		c.lineTo(30, 19);
		c.lineTo(36, 19);
		c.stroke();
	});
	return pictures;
}

function showHelp() {
	const close = element('button', { type: 'button', onclick: () => $('help').close() }, 'Close');
	$('help').replaceChildren(element('h2', {}, 'How to read it'), element('div', { class: 'columns' }, ...legendPictures()),
		element('h2', { class: 'keys' }, 'Keys'), element('div', { class: 'columns' }, ...KEYS.map(([key, text]) =>
			element('div', {}, element('span', {}, ...key.split(' ').flatMap(k => [element('kbd', {}, k), ' '])), text))),
		element('p', {}, 'Verbatim ' + DATA.version + '. ' + DATA.file.length + (DATA.file.length === 1 ? ' file: ' : ' files: ') + DATA.file.join(', ') +
			(DATA.unknown ? '. Left out: ' + DATA.unknown + ' datagrams to port 4791 of no known opcode (Verbatim probes its port map so)' : '') +
			(DATA.left_out ? '. Left out: ' + DATA.left_out + ' frames of other protocols' : '') + '.'), close);
	$('help').showModal();
}

// ---- input ----

function onKey(event) {
	if (event.ctrlKey || event.metaKey || event.altKey || $('help').open)
		return;
	const typing = event.target.tagName === 'INPUT' && event.target.type !== 'checkbox';
	if (event.key === 'Escape') {
		if (typing)
			scroller.focus();
		else
			select(-1, false);
		return;
	}
	if (typing) {
		if (event.key === 'Enter')
			goTo(hits, event.shiftKey ? -1 : 1);
		return;
	}
	const inDetails = $('details').contains(event.target);
	const actions = { '/': () => $('search').focus(), 'n': () => goTo(problems, 1), 'p': () => goTo(problems, -1), '+': () => zoom(1.3),
		'=': () => zoom(1.3), '-': () => zoom(1 / 1.3), '0': fit, 't': () => setForm(!asTable), 'd': () => setTheme(isDark() ? 'light' : 'dark'),
		'c': () => { $('compress').checked = !$('compress').checked; onCompress(); },
		'f': () => { $('fold').checked = !$('fold').checked; onFold(); }, '?': showHelp, 'j': () => step(1), 'k': () => step(-1) };
	if (!inDetails && !asTable)
		Object.assign(actions, { ArrowDown: () => step(1), ArrowUp: () => step(-1) });
	if (event.key === 'Enter' && event.target === scroller && VIEW.selected >= 0)
		actions.Enter = () => $('details-body').focus();
	if (!actions[event.key])
		return;
	event.preventDefault();
	actions[event.key]();
}

function onCompress() {
	VIEW.compress = $('compress').checked;
	relayout();
}

function onFold() {
	VIEW.fold = $('fold').checked;
	relayout();
	scroller.scrollTop = 0;
}

function pointed(event) {
	const box = canvas.getBoundingClientRect();
	const x = event.clientX - box.left, y = event.clientY - box.top;
	return x < GUTTER() ? -1 : itemAt(x + scroller.scrollLeft, y + scroller.scrollTop);
}

function listen() {
	scroller.addEventListener('scroll', redraw, { passive: true });
	scroller.addEventListener('wheel', event => {
		if (!event.ctrlKey && !event.metaKey)
			return;
		event.preventDefault();
		zoom(Math.exp(-event.deltaY * .004), event.clientY - scroller.getBoundingClientRect().top);
	}, { passive: false });
	canvas.addEventListener('mousemove', event => {
		const item = pointed(event);
		if (item !== VIEW.hover) {
			VIEW.hover = item;
			canvas.style.cursor = item >= 0 ? 'pointer' : 'default';
			redraw();
		}
	});
	canvas.addEventListener('mouseleave', () => { VIEW.hover = -1; redraw(); });
	canvas.addEventListener('click', event => select(pointed(event), false));
	let dragging = false;
	const toMap = event => {
		const box = mapCanvas.getBoundingClientRect();
		scroller.scrollTop = (event.clientY - box.top) / box.height * PLACE.height - scroller.clientHeight / 2;
	};
	mapCanvas.addEventListener('pointerdown', event => { dragging = true; mapCanvas.setPointerCapture(event.pointerId); toMap(event); });
	mapCanvas.addEventListener('pointermove', event => { if (dragging) toMap(event); });
	mapCanvas.addEventListener('pointerup', () => { dragging = false; });
	$('search').addEventListener('input', onSearch);
	$('only').addEventListener('change', () => { VIEW.only = $('only').checked; relayout(); });
	const click = (id, action) => $(id).addEventListener('click', action);
	click('hit-next', () => goTo(hits, 1));
	click('hit-previous', () => goTo(hits, -1));
	click('problem-next', () => goTo(problems, 1));
	click('zoom-in', () => zoom(1.4));
	click('zoom-out', () => zoom(1 / 1.4));
	click('zoom-fit', fit);
	click('as-chart', () => setForm(false));
	click('as-table', () => setForm(true));
	click('theme', () => setTheme(isDark() ? 'light' : 'dark'));
	click('help-open', showHelp);
	click('details-close', () => select(-1, false));
	click('details-next', () => step(1));
	click('details-previous', () => step(-1));
	$('compress').addEventListener('change', onCompress);
	$('fold').addEventListener('change', onFold);
	document.addEventListener('keydown', onKey);
	document.addEventListener('click', event => {
		if ($('lanes-menu').open && !$('lanes-menu').contains(event.target))
			$('lanes-menu').open = false;
	});
	systemDark.addEventListener('change', () => setTheme());
	addEventListener('beforeprint', preparePrint);
	addEventListener('afterprint', () => { $('print').replaceChildren(); if (asTable) showTable(); redraw(); });
	new ResizeObserver(() => {	// also calls when it begins
		if (sized !== windowSize())
			resize();
	}).observe(scroller);
}

// ---- start ----

function summary() {
	const span = MOMENTS.length ? MOMENTS.time[MOMENTS.length - 1] : 0, count = (n, what) => thousands(n) + ' ' + what + (n === 1 ? '' : 's');
	const operations = OPERATIONS, parts = operations === PACKETS && operations ? [] : [count(PACKETS - operations, 'packet')];
	if (operations)
		parts.push(count(operations, 'operation') + ' through memory');
	if (EVENTS)
		parts.push(count(EVENTS, 'event'));
	parts.push(count(LANES.filter(l => l.qpn !== -1).length, 'queue pair'), timeText(span));
	return parts.join(' \u00b7 ');
}

function start() {
	const name = DATA.title ?? DATA.file.map(f => f.replace(/.*\//, '')).join(', ');
	document.title = name + ' \u2013 verbatim ladder';
	$('title').textContent = name;
	$('summary').textContent = summary();
	if (DATA.home) {
		$('home').href = DATA.home;
		$('home').hidden = false;
	}
	if (DATA.about) {
		$('about').hidden = false;
		$('about-text').replaceChildren(...DATA.about.trim().split(/\n\s*\n/).map(p => element('p', {}, p.replace(/\n/g, ' '))));
	}
	$('warnings').replaceChildren(...DATA.warning.map(w => element('p', {}, '\u26a0 ' + w)));
	$('fold-label').hidden = !FOLDS;
	$('fold-text').textContent = 'fold set-up (' + thousands(FOLDS) + ')';
	makeKinds();
	makeLanes();
	setTheme();
	listen();
	relayout();
	const rows = PLACE.rows[PLACE.rows.length - 1] || 1;	// few messages may fill the window
	VIEW.row = Math.max(ROW, Math.min(38, (scroller.clientHeight - PAD_TOP - PAD_BOTTOM) / rows));
	layoutRows();
	resize();
	draw();		// what is loaded is drawn: who takes a picture then need not wait for a frame
	scroller.focus({ preventScroll: true });
	document.documentElement.dataset.ready = 'yes';
}

start();
