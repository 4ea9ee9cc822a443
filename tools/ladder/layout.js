// SPDX-License-Identifier: BSD-2-Clause
// Where everything is. Time runs down. Every moment (a packet sent, received, an event) takes a row; between rows
// passes time: as the logarithm of how long it was when idle time is shortened, else in proportion.
//
// VIEW: what is shown and how large; MOMENTS: all of them by time; PLACE: their places for this view, in rows, which the
// zoom makes pixels of.
'use strict';

const ROW = 24, ROW_MIN = 0.0002, ROW_MAX = 64, HEIGHT_MAX = 12e6;
const BLOCK = 128;

const VIEW = { row: ROW, compress: true, kinds: new Set(KINDS.keys()), lanes: new Set(LANES.keys()), only: false, query: [],
	selected: -1, hover: -1, fold: true };

// By time: when, whose, and 1 where it was received. The page brings their order.
const MOMENTS = DATA.pack ? unpackMoments(DATA.pack) : (() => {
	const item = Uint32Array.from(DATA.moment, code => code >> 1), end = Uint8Array.from(DATA.moment, code => code & 1);
	const time = Float64Array.from(item, (one, at) => !isPacket(one) ? E.time[one - PACKETS] : end[at] ? P.received[one] : beginOf(one));
	return { length: item.length, time, item, end };
})();

// What is folded away at first (tools/ladder_order.c).
const FOLDED = new Uint8Array(ITEMS);
let FOLDS = 0;
for (const [first, count] of DATA.fold) {
	FOLDED.fill(1, first, first + count);
	FOLDS += count;
}

// A search looks at everything.
const isFolded = item => FOLDED[item] === 1 && VIEW.fold && !VIEW.query.length;

function matches(item) {
	const text = searchText(item);
	return VIEW.query.every(word => text.includes(word));
}

// Nothing is filtered: all is shown but what is folded.
const isWhole = () => VIEW.kinds.size === KINDS.length && VIEW.lanes.size === LANES.length && !VIEW.query.length;

function isShown(item) {
	if (!VIEW.kinds.has(kindOf(item)) || isFolded(item))
		return false;
	if (isPacket(item) ? !VIEW.lanes.has(P.from[item]) || !VIEW.lanes.has(P.to[item]) : !VIEW.lanes.has(eventOf(item).lane))
		return false;
	return !VIEW.only || !VIEW.query.length || matches(item);
}

// items: those that are shown, by their first moment; first, last: the rows of both ends of each.
const PLACE = { items: [], first: new Float64Array(ITEMS), last: new Float64Array(ITEMS), height: 0, x: [], width: 0, median: 1,
	silent: new Set(), shown: new Uint8Array(ITEMS) };

const heightOf = row => PAD_TOP + row * VIEW.row;	// in pixels
const beginY = item => heightOf(PLACE.first[item]);
const endY = item => heightOf(PLACE.last[item]);

// Which items are shown: all but what is folded, or what the filters leave.
function chooseItems() {
	const shown = PLACE.shown;
	if (!isWhole()) {
		for (let item = 0; item < ITEMS; item++)
			shown[item] = isShown(item) ? 1 : 0;
		return;
	}
	shown.fill(1);
	if (VIEW.fold)
		for (const [first, count] of DATA.fold)
			shown.fill(0, first, first + count);
}

function shownMoments() {
	const { length, time, item, end } = MOMENTS, shown = PLACE.shown;
	if (!shown.includes(0))
		return MOMENTS;
	const left = { length: 0, time: new Float64Array(length), item: new Uint32Array(length), end: new Uint8Array(length) };
	let used = 0;
	for (let i = 0; i < length; i++)
		if (shown[item[i]]) {
			left.time[used] = time[i];
			left.item[used] = item[i];
			left.end[used++] = end[i];
		}
	left.length = used;
	return left;
}

// The median of the steps between moments. The page brings that of what it shows at first.
function medianStep({ length, time }) {
	if (isWhole() && (VIEW.fold || !FOLDS))
		return Math.max(1, DATA.median);
	const steps = new Float64Array(Math.max(0, length - 1));
	for (let i = 0; i < steps.length; i++)
		steps[i] = time[i + 1] - time[i];
	return Math.max(1, steps.sort()[steps.length >> 1] ?? 1);
}

// Which items are shown, and where, in rows: items, blocks of them, gaps in time. Anew when a filter changes.
function layoutItems() {
	chooseItems();
	PLACE.silent = silentLanes();
	PLACE.moments = shownMoments();
	const { length, time, item, end } = PLACE.moments, { first, last } = PLACE, compress = VIEW.compress;
	const rows = PLACE.rows = new Float64Array(length), items = new Uint32Array(length);
	const median = PLACE.median = medianStep(PLACE.moments), long = compress ? Math.max(median * 300, 20000) : Infinity;
	let row = 0, count = 0;
	PLACE.gaps = [];
	first.fill(-1);
	for (let i = 0; i < length; i++) {
		const dt = i ? time[i] - time[i - 1] : 0, one = item[i];
		if (i)
			row += compress ? Math.min(3.2, 0.62 + 0.55 * Math.log10(1 + dt / median)) : dt / median * 0.7;
		if (dt > long)
			PLACE.gaps.push({ at: i, from: rows[i - 1], to: row, ns: dt });
		rows[i] = last[one] = row;
		if (end[i] && first[one] >= 0)		// it has begun
			continue;
		first[one] = row;
		items[count++] = one;
	}
	PLACE.items = items.subarray(0, count);
	layoutBlocks();
	FAR.count = null;		// until it is looked at
	layoutRows();
}

const PAD_TOP = 16, PAD_BOTTOM = 40;

// From which row to which one each block of items reaches.
function layoutBlocks() {
	const { items, first, last } = PLACE, blocks = Math.ceil(items.length / BLOCK);
	PLACE.blockFirst = new Float64Array(blocks);
	PLACE.blockLast = new Float64Array(blocks);
	for (let block = 0; block < blocks; block++) {
		let latest = 0;
		for (let i = block * BLOCK; i < Math.min((block + 1) * BLOCK, items.length); i++)
			latest = Math.max(latest, last[items[i]]);
		PLACE.blockFirst[block] = first[items[block * BLOCK]];
		PLACE.blockLast[block] = latest;
	}
}

// How high all is: anew when the zoom changes.
function layoutRows() {
	const rows = PLACE.rows[PLACE.moments.length - 1] || 0;
	VIEW.row = Math.min(Math.max(VIEW.row, ROW_MIN), ROW_MAX, Math.max(HEIGHT_MAX / Math.max(rows, 1), ROW_MIN));
	PLACE.height = PAD_TOP + rows * VIEW.row + PAD_BOTTOM;
}

const blockMeets = (block, top, bottom) => heightOf(PLACE.blockLast[block]) >= top && heightOf(PLACE.blockFirst[block]) <= bottom;

// Calls back for every item that reaches into top..bottom.
function itemsBetween(top, bottom, callback) {
	for (let block = 0; block < PLACE.blockFirst.length; block++) {
		if (!blockMeets(block, top, bottom))
			continue;
		const end = Math.min((block + 1) * BLOCK, PLACE.items.length);
		for (let i = block * BLOCK; i < end; i++)
			if (endY(PLACE.items[i]) >= top && beginY(PLACE.items[i]) <= bottom)
				callback(PLACE.items[i]);
	}
}

function countBetween(top, bottom) {
	let blocks = 0;
	for (let block = 0; block < PLACE.blockFirst.length; block++)
		if (blockMeets(block, top, bottom))
			blocks++;
	return blocks * BLOCK;
}

// The time at a height: of the moments around it.
function timeAt(y) {
	const moments = PLACE.moments;
	if (!moments.length)
		return 0;
	const row = (y - PAD_TOP) / VIEW.row;
	let low = 0, high = moments.length - 1;
	while (low < high) {
		const middle = (low + high + 1) >> 1;
		if (PLACE.rows[middle] <= row)
			low = middle;
		else
			high = middle - 1;
	}
	const next = Math.min(low + 1, moments.length - 1), span = PLACE.rows[next] - PLACE.rows[low];
	const part = span > 0 ? Math.min(1, Math.max(0, (row - PLACE.rows[low]) / span)) : 0;
	return moments.time[low] + part * (moments.time[next] - moments.time[low]);
}

// ---- lanes ----

// Lanes of which all is folded away.
function silentLanes() {
	const silent = new Set();
	if (!FOLDS || !VIEW.fold || VIEW.query.length)
		return silent;
	for (const [first, count] of DATA.fold)
		for (let item = first; item < first + count; item++)
			silent.add(E.lane[item - PACKETS]);
	const { from, to } = P, { lane } = E;
	for (let item = 0; silent.size && item < PACKETS; item++) {
		silent.delete(from[item]);
		silent.delete(to[item]);
	}
	for (let item = PACKETS; silent.size && item < ITEMS; item++)
		if (!FOLDED[item])
			silent.delete(lane[item - PACKETS]);
	return silent;
}

const LANE_ORDER = DATA.lane_order;	// from left to right

const GUTTER = () => innerWidth < 640 ? 62 : 92;

function layoutLanes(width) {
	const shown = LANE_ORDER.filter(lane => VIEW.lanes.has(lane) && !PLACE.silent.has(lane));
	const narrow = width < 640;
	const labels = EVENTS > 0;
	let left = GUTTER() + (labels ? (narrow ? 70 : Math.min(230, width * .18)) : narrow ? 34 : 60);
	let right = labels ? (narrow ? 76 : Math.min(240, width * .19)) : narrow ? 40 : 60;
	const least = labels ? (width < 1000 ? 110 : 200) : narrow ? 84 : 130;
	if (left + right + least * (shown.length - 1) > width) {	// words stand between the lines, then
		left = GUTTER() + 44;
		right = 48;
	}
	const gap = shown.length > 1 ? Math.max(least, Math.min(560, (width - left - right) / (shown.length - 1))) : 0;
	const used = left + right + gap * Math.max(0, shown.length - 1);
	const shift = Math.max(0, (width - used) / 2);
	PLACE.x = new Array(LANES.length).fill(-1);
	shown.forEach((lane, at) => { PLACE.x[lane] = left + shift * .6 + at * gap; });
	PLACE.lanes = shown;
	PLACE.gap = gap;
	PLACE.width = Math.max(width, used);
}
