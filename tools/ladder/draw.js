// SPDX-License-Identifier: BSD-2-Clause
// The chart on its canvas: only what is in the window, as arrows with their words; far out as far.js has it.
'use strict';

const $ = id => document.getElementById(id);
const canvas = $('canvas'), scroller = $('scroller'), mapCanvas = $('map');
const FONT = '12px system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif';
const SMALL = '11px system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif';
const DENSE = 3000;		// items in the window from which on sums take the place of arrows (far.js)
let theme = {};

function readTheme() {
	const style = getComputedStyle(document.documentElement);
	for (const name of ['paper', 'raised', 'sunk', 'line', 'ink', 'soft', 'faint', 'accent', 'mark', 'band', 'good', 'bad',
		...new Set(COLOUR)])
		theme[name] = style.getPropertyValue('--' + name).trim();
}

function sizeCanvas(element, width, height) {
	const scale = devicePixelRatio || 1;
	if (element.width !== Math.round(width * scale) || element.height !== Math.round(height * scale)) {
		element.width = Math.round(width * scale);
		element.height = Math.round(height * scale);
		element.style.width = width + 'px';
		element.style.height = height + 'px';
	}
	const context = element.getContext('2d');
	context.setTransform(scale, 0, 0, scale, 0, 0);
	return context;
}

// ---- pieces ----

function halo(c, text, x, y, colour) {
	c.lineWidth = 3.5;
	c.lineJoin = 'round';
	c.strokeStyle = theme.paper;
	c.strokeText(text, x, y);
	c.fillStyle = colour;
	c.fillText(text, x, y);
}

const widths = new Map();
function textWidth(c, text) {
	const key = c.font + text;
	let width = widths.get(key);
	if (width === undefined) {
		width = c.measureText(text).width;
		if (widths.size > 20000)
			widths.clear();
		widths.set(key, width);
	}
	return width;
}

function arrowHead(c, x, y, angle, size) {
	c.beginPath();
	c.moveTo(x, y);
	c.lineTo(x - size * Math.cos(angle - .42), y - size * Math.sin(angle - .42));
	c.lineTo(x - size * Math.cos(angle + .42), y - size * Math.sin(angle + .42));
	c.closePath();
	c.fill();
}

function cross(c, x, y, size) {
	c.beginPath();
	c.moveTo(x - size, y - size);
	c.lineTo(x + size, y + size);
	c.moveTo(x + size, y - size);
	c.lineTo(x - size, y + size);
	c.stroke();
}

// Across an arrow: it arrived, and went no further.
function barred(c, x, y, angle, size) {
	c.beginPath();
	c.moveTo(x - size * Math.sin(angle), y + size * Math.cos(angle));
	c.lineTo(x + size * Math.sin(angle), y - size * Math.cos(angle));
	c.stroke();
}

// From lane to lane; of a QP that sends to itself, out and back. A lost one ends underway.
function ends(item) {
	const x0 = PLACE.x[P.from[item]], x1 = PLACE.x[P.to[item]];
	const y0 = beginY(item);
	let y1 = endY(item);
	if (y1 === y0)
		y1 = y0 + Math.min(6, VIEW.row * .25);
	const part = flagged(item, FLAG.LOST) ? .62 : 1;
	return { x0, y0, x1: x0 + (x1 - x0) * part, y1: y0 + (y1 - y0) * part + (part < 1 ? Math.min(8, VIEW.row * .4) : 0), loop: x0 === x1 };
}

function strokeArrow(c, item, e, top, colour, strong) {
	const y0 = e.y0 - top, y1 = e.y1 - top;
	const memory = flagged(item, MEMORY | FLAG.RING);
	c.strokeStyle = c.fillStyle = colour;
	c.lineWidth = strong ? 2.6 : isMarked(item) ? 1.9 : 1.35;
	c.setLineDash(flagged(item, FLAG.AGAIN) ? [7, 4] : flagged(item, FLAG.RING) ? [2, 3] : []);
	c.beginPath();
	if (e.loop) {
		c.moveTo(e.x0, y0);
		c.bezierCurveTo(e.x0 + 46, y0, e.x0 + 46, Math.max(y1, y0 + 8), e.x0, Math.max(y1, y0 + 8));
	} else if (flagged(item, FLAG.DIRECT)) {	// two lines: no packet, a copy
		c.moveTo(e.x0, y0 - 1.6);
		c.lineTo(e.x1, y1 - 1.6);
		c.moveTo(e.x0, y0 + 1.6);
		c.lineTo(e.x1, y1 + 1.6);
	} else {
		c.moveTo(e.x0, y0);
		c.lineTo(e.x1, y1);
	}
	c.stroke();
	c.setLineDash([]);
	const angle = e.loop ? Math.PI : Math.atan2(y1 - y0, e.x1 - e.x0);
	if (flagged(item, FLAG.LOST)) {
		c.strokeStyle = theme.bad;
		c.lineWidth = 2.4;
		cross(c, e.x1, y1, 5);
	} else if (flagged(item, FLAG.DROPPED)) {
		c.strokeStyle = theme.bad;
		c.lineWidth = 3;
		barred(c, e.x1 - 9 * Math.cos(angle), y1 - 9 * Math.sin(angle), angle, 7);
	} else {
		arrowHead(c, e.x1, e.loop ? Math.max(y1, y0 + 8) : y1, angle, memory ? 9 : 8);
	}
}

// Boxes of words and marks that are drawn, by rows of the window: what would lie on another one, or be cut, is not drawn.
const TAKEN_ROW = 16;
let taken = [];
let takenRows = new Map();

function clearTaken() {
	taken = [];
	takenRows = new Map();
}

function rowsOf(box) {
	const rows = [];
	for (let row = Math.floor(box.y0 / TAKEN_ROW); row <= Math.floor(box.y1 / TAKEN_ROW); row++)
		rows.push(row);
	return rows;
}

const isFree = box => !rowsOf(box).some(row => (takenRows.get(row) ?? []).some(other =>
	other.x0 < box.x1 && other.x1 > box.x0 && other.y0 < box.y1 && other.y1 > box.y0));

function take(box) {
	taken.push(box);
	for (const row of rowsOf(box)) {
		if (!takenRows.has(row))
			takenRows.set(row, []);
		takenRows.get(row).push(box);
	}
}

// What may be said of a packet, the longest first.
function arrowWords(item) {
	const fate = flagged(item, FLAG.LOST) ? ' \u2014 lost' : flagged(item, FLAG.DROPPED) ? ' \u2014 dropped' : '';
	const words = [2, 1, 0].map(room => packetLabel(item, room) + fate);
	return [...new Set([...words, packetLabel(item, 0), packetLabel(item, 0).replace(/ (ONLY|REQUEST)$/, '')])];
}

function loopText(c, item, e, top) {
	const x0 = e.x0 + 42, y = e.y0 - top + 10, colour = theme[colourName(item)];
	for (const text of arrowWords(item)) {
		const box = { text, x0, x1: x0 + textWidth(c, text), y0: y - 10, y1: y + 3 };
		if (box.x1 > PLACE.width - 8 || !isFree(box))
			continue;
		take(box);
		c.textAlign = 'left';
		halo(c, text, x0, y, colour);
		return;
	}
}

function arrowText(c, item, e, top, force) {
	const dx = e.x1 - e.x0, dy = e.y1 - e.y0, length = Math.abs(dx), slope = dy / dx;
	c.font = FONT;
	c.textBaseline = 'alphabetic';
	if (e.loop) {
		loopText(c, item, e, top);
		return;
	}
	for (const text of arrowWords(item)) {
		const width = textWidth(c, text);
		for (const part of [.5, .3, .7]) {
			if (length * Math.min(part, 1 - part) < width / 2 + 7)
				continue;
			const x = e.x0 + dx * part, y = e.y0 + dy * part - top, lean = Math.abs(slope) < .5 ? Math.abs(slope) * width / 2 : 0;
			const box = { text, x0: x - width / 2, x1: x + width / 2, y0: y - 15 - lean, y1: y - 1 + lean };
			if (!force && !isFree(box))
				continue;
			take(box);
			c.save();
			c.translate(x, y);
			if (lean)
				c.rotate(Math.atan(slope));
			c.textAlign = 'center';
			halo(c, text, 0, flagged(item, FLAG.DIRECT) ? -5 : -4, flagged(item, FLAG.LOST | FLAG.DROPPED) ? theme.bad :
				theme[colourName(item)]);
			c.restore();
			return;
		}
	}
}

// Events: a mark on the line, words beside it: outwards at the first and the last lane.
function eventSide(lane) {
	return PLACE.lanes.length > 1 && lane === PLACE.lanes[0] ? -1 : 1;
}

function eventMark(c, item, x, y, size) {
	const json = eventOf(item).json;
	c.fillStyle = theme[colourName(item)];
	c.beginPath();
	if (json.event === 'call')
		c.rect(x - size, y - size * .55, size * 2, size * 1.1);
	else if (isState(json)) {
		c.moveTo(x, y - size * 1.2);
		c.lineTo(x + size * 1.2, y);
		c.lineTo(x, y + size * 1.2);
		c.lineTo(x - size * 1.2, y);
	} else {
		c.arc(x, y, size * .95, 0, 7);
	}
	c.fill();
	c.lineWidth = 1.5;
	c.strokeStyle = theme.paper;
	c.stroke();
}

function eventColour(item) {
	const { json } = eventOf(item);
	return eventFailed(json) ? theme.bad : json.event === 'completion' ? theme.good : isState(json) ? theme.accent : theme.ink;
}

function drawEvent(c, item, top, strong) {
	const x = PLACE.x[eventOf(item).lane], y = beginY(item) - top, size = strong ? 6 : 4.5;
	eventMark(c, item, x, y, size);
	take({ text: '', x0: x - size, x1: x + size, y0: y - size, y1: y + size });
}

// Beside its mark, outwards; of a line between others on either side.
function eventText(c, item, top, force) {
	const lane = eventOf(item).lane, x = PLACE.x[lane], y = beginY(item) - top, side = eventSide(lane);
	c.font = SMALL;
	c.textBaseline = 'middle';
	const long = eventLabel(item), short = eventLabelShort(item), least = short.replace(/ (wr|\d+ B).*/, '');
	for (const [text, to] of [[long, side], [short, side], [long, -side], [short, -side], [least, side], [least, -side]]) {
		const width = textWidth(c, text), x0 = to < 0 ? x - 10 - width : x + 10;
		const box = { text, x0, x1: x0 + width, y0: y - 6.5, y1: y + 6.5 };
		if (x0 < GUTTER() + 5 || box.x1 > PLACE.width - 6 || (!force && !isFree(box)))
			continue;
		take(box);
		c.textAlign = 'left';
		halo(c, text, x0, y, eventColour(item));
		return;
	}
}

// An ACK for several packets: a bracket along the requester's line.
function drawBracket(c, ack, top) {
	const first = firstAcked(ack);
	if (first < 0 || !PLACE.shown[first])
		return;
	const lane = P.to[ack], side = eventSide(lane), x = PLACE.x[lane] - side * 6, tip = x + side * 3;
	const a = beginY(first) - top, b = endY(ack) - top;
	c.strokeStyle = theme.ack;
	c.lineWidth = 1.2;
	c.beginPath();
	c.moveTo(tip, a);
	c.lineTo(x - side * 2, a);
	c.lineTo(x - side * 2, b);
	c.lineTo(tip, b);
	c.stroke();
}

let firstOfAcks = null;

function firstAcked(ack) {
	if (!firstOfAcks) {
		const { acked } = P;
		firstOfAcks = new Int32Array(PACKETS).fill(-1);
		for (let i = 0; i < PACKETS; i++)
			if (acked[i] >= 0 && firstOfAcks[acked[i]] < 0)
				firstOfAcks[acked[i]] = i;
	}
	return firstOfAcks[ack];
}

// ---- the state of a QP as the form of its line ----

const STATES = (() => {
	const states = LANES.map(() => []);
	for (let item = KIND_OF.indexOf(KIND.state, PACKETS); item >= 0; item = KIND_OF.indexOf(KIND.state, item + 1)) {
		const { json, lane } = eventOf(item);
		if (isState(json))
			states[lane].push({ item, to: stateOf(json) });
	}
	for (const list of states)
		list.sort((a, b) => eventOf(a.item).time - eventOf(b.item).time);
	return states;
})();

function drawLine(c, lane, top, height) {
	const x = PLACE.x[lane];
	const segment = (from, to, state) => {
		if (to < 0 || from > height || to <= from)
			return;
		c.strokeStyle = state === 'ERR' || state === 'SQE' ? theme.bad : state === 'RTS' ? theme.soft : theme.faint;
		c.lineWidth = state === 'RTS' || state === 'ERR' ? 2 : 1.3;
		c.setLineDash(state === 'INIT' || state === 'RESET' ? [2, 4] : state === 'RTR' ? [6, 3] : []);
		c.beginPath();
		c.moveTo(x, Math.max(from, 0));
		c.lineTo(x, Math.min(to, height));
		c.stroke();
		c.setLineDash([]);
	};
	let from = 0, state = STATES[lane].length ? 'RESET' : '';
	for (const change of STATES[lane]) {
		if (!PLACE.shown[change.item]) {
			if (isFolded(change.item) && eventOf(change.item).time <= (PLACE.moments.time[0] ?? 0))
				state = change.to;
			continue;
		}
		const y = beginY(change.item) - top;
		segment(from, y, state);
		from = y;
		state = change.to;
	}
	segment(from, Math.min(height, PLACE.height - top - 12), state);
}

// ---- the whole ----

function drawBands(c, left, top, width, height) {
	let group = null, at = -1;
	PLACE.lanes.forEach((lane, index) => {
		if (laneGroup(lane) !== group) {
			group = laneGroup(lane);
			at++;
		}
		if (at % 2)
			return;
		const half = PLACE.gap ? PLACE.gap / 2 : 120;
		const x0 = index === 0 ? GUTTER() : PLACE.x[lane] - half;
		const x1 = index === PLACE.lanes.length - 1 ? PLACE.width : PLACE.x[lane] + half;
		c.fillStyle = theme.band;
		c.fillRect(x0 - left, 0, x1 - x0, height);
	});
}

function drawGutter(c, top, height) {
	const gutter = GUTTER();
	c.fillStyle = theme.paper;
	c.fillRect(0, 0, gutter, height);
	c.font = SMALL;
	c.textAlign = 'right';
	c.textBaseline = 'middle';
	c.fillStyle = theme.faint;
	const step = 44;
	let last = '';
	for (let y = step * Math.ceil(top / step); y < top + height; y += step) {
		if (y < PAD_TOP - 4 || y > PLACE.height - PAD_BOTTOM + 8)
			continue;
		const text = timeText(Math.round(timeAt(y)));
		if (text !== last)
			c.fillText(text, gutter - 10, y - top);
		last = text;
	}
	c.strokeStyle = theme.line;
	c.lineWidth = 1;
	c.beginPath();
	c.moveTo(gutter - .5, 0);
	c.lineTo(gutter - .5, height);
	c.stroke();
}

function drawIdle(c, left, top, width, height) {
	c.font = SMALL;
	c.textBaseline = 'middle';
	for (const mark of PLACE.gaps) {
		const y = heightOf((mark.from + mark.to) / 2) - top;
		if (y < -10 || y > height + 10 || VIEW.row < 8)
			continue;
		c.strokeStyle = theme.line;
		c.setLineDash([2, 5]);
		c.lineWidth = 1;
		c.beginPath();
		c.moveTo(GUTTER() - left, y);
		c.lineTo(PLACE.width - left, y);
		c.stroke();
		c.setLineDash([]);
		c.textAlign = 'center';
		const between = PLACE.lanes.length > 1 ? (PLACE.x[PLACE.lanes[0]] + PLACE.x[PLACE.lanes[1]]) / 2 : PLACE.width / 2;
		const text = timeText(mark.ns) + ' idle', half = textWidth(c, text) / 2;
		take({ text, x0: between - half, x1: between + half, y0: y - 7, y1: y + 7 });
		halo(c, text, between - left, y, theme.faint);
	}
}

function related(item) {
	if (VIEW.selected < 0 || item === VIEW.selected)
		return item === VIEW.selected;
	const one = VIEW.selected;
	if (isPacket(item) && isPacket(one))
		return P.acked[item] === one || P.acked[one] === item;
	return false;
}

// The chosen one's words first; arrows before events.
function drawNear(c, top, height) {
	const items = [];
	itemsBetween(top - 40, top + height + 40, item => items.push(item));
	const roomy = VIEW.row >= 9;
	for (const item of items)
		if (isPacket(item) && P.acks[item] > 1 && roomy)
			drawBracket(c, item, top);
	const isStrong = item => item === VIEW.hover || item === VIEW.selected;
	for (const item of items)
		if (isPacket(item))
			strokeArrow(c, item, ends(item), top, theme[colourName(item)], item === VIEW.hover || related(item));
	for (const item of items)
		if (!isPacket(item))
			drawEvent(c, item, top, isStrong(item));
	const say = (item, force) => isPacket(item) ? arrowText(c, item, ends(item), top, force) : eventText(c, item, top, force);
	for (const item of items)
		if (isStrong(item))
			say(item, true);
	for (const packets of [true, false])
		for (const item of items)
			if (isPacket(item) === packets && !isStrong(item))
				say(item, false);
}

function drawInto(c, left, top, width, height) {
	c.fillStyle = theme.paper;
	c.fillRect(0, 0, width, height);
	clearTaken();
	drawBands(c, left, top, width, height);
	c.save();
	c.translate(-left, 0);
	drawSelection(c, top);
	for (const lane of PLACE.lanes)
		drawLine(c, lane, top, height);
	c.restore();
	if (countBetween(top, top + height) > DENSE) {
		drawFar(c, left, top, height);
	} else {
		drawIdle(c, left, top, width, height);
		c.save();
		c.translate(-left, 0);
		drawNear(c, top, height);
		c.restore();
	}
	drawGutter(c, top, height);
}

function drawSelection(c, top) {
	const item = VIEW.selected;
	if (item < 0 || !PLACE.shown[item])
		return;
	const from = beginY(item) - top - 11, to = endY(item) - top + 11;
	c.fillStyle = theme.mark;
	c.globalAlpha = .35;
	c.fillRect(0, from, PLACE.width, to - from);
	c.globalAlpha = 1;
}

// ---- the map of all, at the right ----

let mapImage = null;

function drawMap() {
	const width = $('map-box').clientWidth, height = $('body').clientHeight;
	if (!width || !height)
		return;
	const c = sizeCanvas(mapCanvas, width, height);
	if (!mapImage || mapImage.height !== height || mapImage.stamp !== PLACE.stamp) {
		const count = new Float64Array(height), bad = new Uint8Array(height), kind = new Int8Array(height).fill(-1);
		const { items, first } = PLACE, scale = VIEW.row / PLACE.height * height, begin = PAD_TOP / PLACE.height * height;
		for (let i = 0; i < items.length; i++) {
			const item = items[i], y = Math.min(height - 1, begin + first[item] * scale | 0);
			count[y]++;
			kind[y] = KIND_OF[item];
			bad[y] |= MARKED[item];
		}
		mapImage = { height, stamp: PLACE.stamp, count, bad, kind, most: Math.max(1, ...count) };
	}
	c.fillStyle = theme.paper;
	c.fillRect(0, 0, width, height);
	for (let y = 0; y < height; y++) {
		if (!mapImage.count[y])
			continue;
		c.fillStyle = theme[COLOUR[mapImage.kind[y]]];
		c.globalAlpha = .55;
		c.fillRect(6, y, 4 + (width - 18) * Math.sqrt(mapImage.count[y] / mapImage.most), 1);
		c.globalAlpha = 1;
		if (mapImage.bad[y]) {
			c.fillStyle = theme.bad;
			c.fillRect(width - 9, y, 7, 2);
		}
	}
	const from = scroller.scrollTop / PLACE.height * height, size = Math.max(8, scroller.clientHeight / PLACE.height * height);
	c.fillStyle = theme.accent;
	c.globalAlpha = .14;
	c.fillRect(0, from, width, Math.min(size, height - from));
	c.globalAlpha = .8;
	c.strokeStyle = theme.accent;
	c.lineWidth = 1;
	c.strokeRect(.5, from + .5, width - 1, Math.min(size, height - from) - 1);
	c.globalAlpha = 1;
}

let pending = false;

function draw() {
	pending = false;
	const width = scroller.clientWidth, height = scroller.clientHeight;
	if (!width || !height)
		return;
	const c = sizeCanvas(canvas, width, height);
	drawInto(c, scroller.scrollLeft, scroller.scrollTop, width, height);
	drawMap();
	$('heads-inner').style.transform = 'translateX(' + -scroller.scrollLeft + 'px)';
}

function redraw() {
	if (!pending) {
		pending = true;
		requestAnimationFrame(() => pending && draw());
	}
}

// ---- what is at a place ----

function distance(x, y, e) {
	if (e.loop)
		return x >= e.x0 - 4 && x <= e.x0 + 60 ? Math.abs(y - (e.y0 + 4)) : Infinity;
	const dx = e.x1 - e.x0, dy = e.y1 - e.y0;
	const at = Math.max(0, Math.min(1, ((x - e.x0) * dx + (y - e.y0) * dy) / (dx * dx + dy * dy || 1)));
	return Math.hypot(x - e.x0 - at * dx, y - e.y0 - at * dy);
}

function itemAt(x, y) {
	let best = -1, least = 11;
	itemsBetween(y - 40, y + 40, item => {
		let far;
		if (isPacket(item)) {
			far = distance(x, y, ends(item));
			if (far < 11 && y < beginY(item) + 60)
				far = Math.max(0, far - 2);
		} else {
			const lane = eventOf(item).lane, side = eventSide(lane), dx = (x - PLACE.x[lane]) * side;
			far = dx > -8 && dx < 190 ? Math.abs(y - beginY(item)) - (dx < 9 ? 3 : 0) : Infinity;
		}
		if (far < least) {
			least = far;
			best = item;
		}
	});
	return best;
}
