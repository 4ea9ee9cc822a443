// SPDX-License-Identifier: BSD-2-Clause
// Where everything is. Time runs down. Every moment (a packet sent, received, an event) takes a row; between rows
// passes time: as the logarithm of how long it was when idle time is shortened, else in proportion.
//
// VIEW: what is shown and how large; MOMENTS: all of them by time; PLACE: their places for this view.
'use strict';

const ROW = 24, ROW_MIN = 0.0002, ROW_MAX = 64, HEIGHT_MAX = 12e6;
const BLOCK = 128;

const VIEW = { row: ROW, compress: true, kinds: new Set(KINDS.keys()), lanes: new Set(LANES.keys()), only: false, query: [],
	selected: -1, hover: -1, fold: true };

const isLater = (time, code, a, b) => time[a] !== time[b] ? time[a] > time[b] : (code[a] & 1) !== (code[b] & 1) ? (code[a] & 1) > (code[b] & 1)
	: code[a] > code[b];

// By time: when, and whose, as item * 2, and 1 more where it was received. Typed arrays: there may be a million.
const MOMENTS = (() => {
	const count = PACKETS * 2 + EVENTS.length;
	const time = new Float64Array(count), code = new Uint32Array(count);
	let used = 0;
	const add = (at, what) => {
		time[used] = at;
		code[used++] = what;
	};
	const runs = [0];		// three that are nearly sorted
	for (let item = 0; item < PACKETS; item++)
		if (P.sent[item] >= 0)
			add(beginOf(item), item * 2);
	runs.push(used);
	for (let item = 0; item < PACKETS; item++)
		if (P.received[item] >= 0 && !flagged(item, FLAG.INSTANT))
			add(P.received[item], item * 2 + 1);
	runs.push(used);
	for (let item = PACKETS; item < ITEMS; item++)
		add(EVENTS[item - PACKETS].time, item * 2);
	runs.push(used);
	for (let run = 0; run < 3; run++)
		sortRun(time, code, runs[run], runs[run + 1]);
	return mergeRuns(time, code, runs);
})();

// In place. Where much is out of order, by the general way.
function sortRun(time, code, from, to) {
	let moves = (to - from) * 30 + 1000;
	for (let i = from + 1; i < to && moves > 0; i++) {
		const at = time[i], what = code[i];
		if (!isLater(time, code, i - 1, i))
			continue;
		let place = i;
		for (; place > from && (time[place - 1] > at || (time[place - 1] === at && code[place - 1] > what)); place--, moves--) {
			time[place] = time[place - 1];
			code[place] = code[place - 1];
		}
		time[place] = at;
		code[place] = what;
	}
	if (moves > 0)
		return;
	const order = Array.from({ length: to - from }, (_, at) => from + at).sort((a, b) => time[a] - time[b] || code[a] - code[b]);
	const times = Float64Array.from(order, at => time[at]), codes = Uint32Array.from(order, at => code[at]);
	time.set(times, from);
	code.set(codes, from);
}

function mergeRuns(time, code, runs) {
	const length = runs[3], merged = { length, time: new Float64Array(length), item: new Uint32Array(length), end: new Uint8Array(length) };
	const next = runs.slice(0, 3);
	for (let i = 0; i < length; i++) {
		let best = -1;
		for (let run = 0; run < 3; run++)
			if (next[run] < runs[run + 1] && (best < 0 || isLater(time, code, next[best], next[run])))
				best = run;
		const at = next[best]++;
		merged.time[i] = time[at];
		merged.item[i] = code[at] >>> 1;
		merged.end[i] = code[at] & 1;
	}
	return merged;
}

const ORDER = (() => {		// items by their first moment
	const seen = new Uint8Array(ITEMS), order = [];
	for (let i = 0; i < MOMENTS.length; i++) {
		const item = MOMENTS.item[i];
		if (!seen[item]) {
			seen[item] = 1;
			order.push(item);
		}
	}
	return order;
})();

// What is folded away at first: calls and states before the first packet, but posts, which are why there are packets;
// and what only ends, behind the last packet and completion. Nothing that failed.
const FOLDED = (() => {
	const folded = new Uint8Array(ITEMS), ends = ['call', 'process', 'counters', 'state', 'queue_pair'];
	let first = Infinity, last = -Infinity;
	for (let item = 0; item < PACKETS; item++) {
		first = Math.min(first, beginOf(item) < 0 ? receivedAt(item) : beginOf(item));
		last = Math.max(last, receivedAt(item));
	}
	for (let item = PACKETS; item < ITEMS; item++)
		if (kindOf(item) === KIND.completion)
			last = Math.max(last, eventOf(item).time);
	// Of large pages texts are read that matter, and no others.
	for (let item = PACKETS; item < ITEMS; item++)
		if (kindOf(item) === KIND.other && eventOf(item).time > last && !ends.includes(eventOf(item).json.event))
			last = eventOf(item).time;
	for (let item = PACKETS; PACKETS && item < ITEMS; item++) {
		if (eventOf(item).time >= first && eventOf(item).time <= last)
			continue;
		const { time, json } = eventOf(item), quiet = ends.includes(json.event) && !eventFailed(json);
		const before = time < first && (quiet || json.event === 'cm') && !/^ibv_(post|wr)_/.test(json.name ?? '');
		folded[item] = before || (quiet && time > last) ? 1 : 0;
	}
	return folded;
})();
const FOLDS = FOLDED.reduce((sum, one) => sum + one, 0);

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

const PLACE = { items: [], y: [new Float64Array(ITEMS), new Float64Array(ITEMS)], top: [], bottom: [], blockTop: [], blockBottom: [],
	marks: [], height: 0, x: [], width: 0, median: 1, unit: [], silent: new Set(), shown: new Uint8Array(ITEMS) };

// Rows between two moments that are dt apart.
function rowsFor(dt) {
	return Math.min(3.2, 0.62 + 0.55 * Math.log10(1 + dt / PLACE.median));
}

function shownMoments() {
	const shown = { length: 0, time: new Float64Array(MOMENTS.length), item: new Uint32Array(MOMENTS.length), end: new Uint8Array(MOMENTS.length) };
	for (let i = 0; i < MOMENTS.length; i++)
		if (PLACE.shown[MOMENTS.item[i]]) {
			shown.time[shown.length] = MOMENTS.time[i];
			shown.item[shown.length] = MOMENTS.item[i];
			shown.end[shown.length++] = MOMENTS.end[i];
		}
	return shown;
}

// Which items are shown, and how many rows each moment is from the first: anew when a filter changes.
function layoutItems() {
	PLACE.items = [];
	const whole = isWhole(), fold = VIEW.fold;
	for (const item of ORDER) {
		PLACE.shown[item] = whole ? 1 - (FOLDED[item] & fold) : isShown(item) ? 1 : 0;
		if (PLACE.shown[item])
			PLACE.items.push(item);
	}
	PLACE.silent = silentLanes();
	const moments = PLACE.moments = shownMoments(), steps = new Float64Array(Math.max(0, moments.length - 1));
	for (let i = 0; i < steps.length; i++)
		steps[i] = moments.time[i + 1] - moments.time[i];
	const sorted = steps.slice().sort();
	PLACE.median = Math.max(1, sorted[sorted.length >> 1] ?? 1);
	PLACE.rows = new Float64Array(PLACE.moments.length);
	for (let i = 1; i < PLACE.moments.length; i++) {
		const dt = steps[i - 1];
		PLACE.rows[i] = PLACE.rows[i - 1] + (VIEW.compress ? rowsFor(dt) : Math.max(dt / PLACE.median * 0.7, 0));
	}
	layoutUnits();
	FAR.count = null;		// until it is looked at
	layoutRows();
}

const PAD_TOP = 16, PAD_BOTTOM = 40;

// Places in rows: of items, of blocks of them, and of gaps in time.
function layoutUnits() {
	const moments = PLACE.moments, [begins, ends] = PLACE.unit = [new Float64Array(ITEMS), new Float64Array(ITEMS)];
	PLACE.gaps = [];
	for (let i = 0; i < moments.length; i++) {
		const time = moments.time[i], item = moments.item[i], end = moments.end[i], row = PLACE.rows[i];
		(end ? ends : begins)[item] = row;
		if (end === 0 && (!isPacket(item) || flagged(item, FLAG.INSTANT) || P.received[item] < 0))
			ends[item] = row;
		else if (end === 1 && P.sent[item] < 0)
			begins[item] = row;
		const ns = i ? time - moments.time[i - 1] : 0;
		if (VIEW.compress && ns > PLACE.median * 300 && ns > 20000)
			PLACE.gaps.push({ at: i, from: PLACE.rows[i - 1], to: row, ns });
	}
	const count = PLACE.items.length, blocks = Math.ceil(count / BLOCK);
	PLACE.blockUnit = [new Float64Array(blocks).fill(Infinity), new Float64Array(blocks).fill(-Infinity)];
	for (let i = 0; i < count; i++) {
		const item = PLACE.items[i], block = Math.floor(i / BLOCK);
		PLACE.blockUnit[0][block] = Math.min(PLACE.blockUnit[0][block], begins[item], ends[item]);
		PLACE.blockUnit[1][block] = Math.max(PLACE.blockUnit[1][block], begins[item], ends[item]);
	}
}

// Places in pixels: anew when the zoom changes.
function layoutRows() {
	const last = PLACE.rows[PLACE.moments.length - 1] || 0;
	VIEW.row = Math.min(Math.max(VIEW.row, ROW_MIN), ROW_MAX, Math.max(HEIGHT_MAX / Math.max(last, 1), ROW_MIN));
	const pixels = (rows, places) => {
		for (let i = 0; i < rows.length; i++)
			places[i] = PAD_TOP + rows[i] * VIEW.row;
		return places;
	};
	pixels(PLACE.unit[0], PLACE.y[0]);
	pixels(PLACE.unit[1], PLACE.y[1]);
	PLACE.blockTop = pixels(PLACE.blockUnit[0], new Float64Array(PLACE.blockUnit[0].length));
	PLACE.blockBottom = pixels(PLACE.blockUnit[1], new Float64Array(PLACE.blockUnit[1].length));
	PLACE.marks = PLACE.gaps.map(gap => ({ at: gap.at, ns: gap.ns, from: PAD_TOP + gap.from * VIEW.row, to: PAD_TOP + gap.to * VIEW.row }));
	PLACE.height = PAD_TOP + last * VIEW.row + PAD_BOTTOM;
}

// Calls back for every item that reaches into top..bottom.
function itemsBetween(top, bottom, callback) {
	for (let block = 0; block < PLACE.blockTop.length; block++) {
		if (PLACE.blockBottom[block] < top || PLACE.blockTop[block] > bottom)
			continue;
		const end = Math.min((block + 1) * BLOCK, PLACE.items.length);
		for (let i = block * BLOCK; i < end; i++) {
			const item = PLACE.items[i], a = PLACE.y[0][item], b = PLACE.y[1][item];
			if (Math.max(a, b) >= top && Math.min(a, b) <= bottom)
				callback(item);
		}
	}
}

function countBetween(top, bottom) {
	let blocks = 0;
	for (let block = 0; block < PLACE.blockTop.length; block++)
		if (PLACE.blockBottom[block] >= top && PLACE.blockTop[block] <= bottom)
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
	const folded = new Uint8Array(LANES.length), other = new Uint8Array(LANES.length);
	for (let item = 0; item < ITEMS; item++) {
		const lanes = isFolded(item) ? folded : other;
		lanes[isPacket(item) ? P.from[item] : eventOf(item).lane] = 1;
		if (isPacket(item))
			lanes[P.to[item]] = 1;
	}
	return new Set([...LANES.keys()].filter(lane => folded[lane] && !other[lane]));
}

// Lanes of one process, or of one address, stand together: who sends first, the client, left.
const LANE_ORDER = (() => {
	const first = new Array(LANES.length).fill(Infinity), groups = new Map(), speaks = new Map();
	const spoke = new Uint8Array(LANES.length);
	for (const item of ORDER) {
		if (isPacket(item) && !spoke[P.from[item]]) {
			spoke[P.from[item]] = 1;
			if (!speaks.has(laneGroup(P.from[item])))
				speaks.set(laneGroup(P.from[item]), speaks.size);
		}
		const at = sentAt(item), from = isPacket(item) ? P.from[item] : eventOf(item).lane, to = isPacket(item) ? P.to[item] : from;
		first[from] = Math.min(first[from], at);
		first[to] = Math.min(first[to], at);
	}
	for (const lane of LANES.keys()) {
		const name = laneGroup(lane);
		groups.set(name, Math.min(groups.get(name) ?? Infinity, first[lane]));
	}
	const rank = qpn => qpn === -1 ? 0 : qpn === 1 ? 1 : 2;
	const names = [...groups.keys()].sort((a, b) => (speaks.get(a) ?? LANES.length) - (speaks.get(b) ?? LANES.length) ||
		groups.get(a) - groups.get(b) || a.localeCompare(b));
	// The last group has what is no data at its outer side, too: queue pairs face each other.
	const outward = lane => rank(LANES[lane].qpn) * (names.length > 1 && laneGroup(lane) === names[names.length - 1] ? -1 : 1);
	return [...LANES.keys()].sort((a, b) => names.indexOf(laneGroup(a)) - names.indexOf(laneGroup(b)) || outward(a) - outward(b) ||
		first[a] - first[b]);
})();

const GUTTER = () => innerWidth < 640 ? 62 : 92;

function layoutLanes(width) {
	const shown = LANE_ORDER.filter(lane => VIEW.lanes.has(lane) && !PLACE.silent.has(lane));
	const narrow = width < 640;
	const labels = EVENTS.length > 0;
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
