// SPDX-License-Identifier: BSD-2-Clause
// Far out, where messages are less than a pixel apart: how much passed, how long it took, what was sent again or went
// wrong, and where nothing moved. Sums over all moments are made with the layout, so that a picture takes as long as
// it is high, however many messages there are.
'use strict';

const FAR = { bytes: null, count: null, again: null, bad: null, latency: null, latencies: null, most: null };
const FAR_BIN = 3;		// pixels

// How long the message took that is over at this moment; -1: nothing is. Completions tell what programs wait for.
function latencyAt(item, end) {
	if (!isPacket(item))
		return E.latency[item - PACKETS];
	if (hasLatencies() || !P.acks[item] || end !== (flagged(item, FLAG.INSTANT) || P.received[item] < 0 ? 0 : 1))
		return -1;
	return Math.max(0, receivedAt(item) - sentAt(firstAcked(item)));
}
let someLatency;
const hasLatencies = () => someLatency ??= E.latency.some(latency => latency >= 0);

function layoutFar() {
	const moments = PLACE.moments, count = moments.length;
	for (const name of ['bytes', 'count', 'again', 'bad', 'latency', 'latencies'])
		FAR[name] = new Float64Array(count + 1);
	FAR.most = new Float64Array(Math.ceil(count / BLOCK));
	for (let i = 0; i < count; i++) {
		const item = moments.item[i], end = moments.end[i], begins = end === 0 || (isPacket(item) && P.sent[item] < 0), packet = isPacket(item);
		const latency = latencyAt(item, end);
		FAR.count[i + 1] = FAR.count[i] + (packet && begins ? 1 : 0);
		FAR.bytes[i + 1] = FAR.bytes[i] + (packet && begins ? P.bytes[item] : 0);
		FAR.again[i + 1] = FAR.again[i] + (begins && flagged(item, FLAG.AGAIN) ? 1 : 0);
		FAR.bad[i + 1] = FAR.bad[i] + (begins && isMarked(item) && !flagged(item, FLAG.AGAIN) ? 1 : 0);
		FAR.latency[i + 1] = FAR.latency[i] + Math.max(0, latency);
		FAR.latencies[i + 1] = FAR.latencies[i] + (latency >= 0 ? 1 : 0);
		FAR.most[Math.floor(i / BLOCK)] = Math.max(FAR.most[Math.floor(i / BLOCK)], latency);
	}
}

// The first moment whose row is not before @row.
function momentAt(row) {
	let low = 0, high = PLACE.moments.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (PLACE.rows[middle] < row)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

function mostLatency(from, to) {
	let most = 0;
	for (let i = from; i < to;) {
		if (i % BLOCK === 0 && i + BLOCK <= to) {
			most = Math.max(most, FAR.most[i / BLOCK]);
			i += BLOCK;
		} else {
			most = Math.max(most, latencyAt(PLACE.moments.item[i], PLACE.moments.end[i]));
			i++;
		}
	}
	return most;
}

// The longest gap in time that ends at one of these moments; null: none is long.
function gapIn(from, to) {
	let low = 0, high = PLACE.gaps.length, longest = null;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (PLACE.gaps[middle].at < from)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < PLACE.gaps.length && PLACE.gaps[low].at < to; low++)
		if (!longest || PLACE.gaps[low].ns > longest.ns)
			longest = PLACE.gaps[low];
	return longest;
}

// What is in each bin of the window.
function farBins(top, height) {
	const bins = [];
	let from = momentAt((top - PAD_TOP) / VIEW.row);
	for (let y = 0; y < height; y += FAR_BIN) {
		const to = momentAt((top + y + FAR_BIN - PAD_TOP) / VIEW.row);
		const sum = name => FAR[name][to] - FAR[name][from];
		if (to > from) {
			const begin = PLACE.moments.time[from], end = PLACE.moments.time[Math.min(to, PLACE.moments.length - 1)];
			const seconds = Math.max(end - begin, PLACE.median * (to - from), 1) / 1e9, latencies = sum('latencies');
			bins.push({ y, still: gapIn(from + (from ? 0 : 1), to), rate: sum('count') / seconds, bytes: sum('bytes') / seconds, again: sum('again'), bad: sum('bad'),
				mean: latencies ? sum('latency') / latencies : 0, most: latencies ? mostLatency(from, to) : 0 });
		}
		from = to;
	}
	return bins;
}

function countText(count) {
	return count >= 1e6 ? (count / 1e6).toFixed(1) + ' M' : count >= 1e4 ? (count / 1e3).toFixed(0) + ' k' : count >= 1e3
		? (count / 1e3).toFixed(1) + ' k' : count.toFixed(0) + ' ';
}

// Why nothing moved: the packet before or behind the gap says so.
function gapWords(mark) {
	const before = mark.at ? PLACE.moments.item[mark.at - 1] : undefined, after = PLACE.moments.item[mark.at];
	if (before !== undefined && isPacket(before) && P.kind[before] === KIND.rnr)
		return ['waited: receiver not ready', theme.rnr];
	if (after !== undefined && flagged(after, FLAG.AGAIN))
		return ['no answer, then sent again', theme.bad];
	return ['idle', theme.faint];
}

const FAR_WORDS = 8;	// gaps with words, the longest of the window

// The longest of these words that has room; '': none.
const roomyWords = (c, words, room) => words.find(text => textWidth(c, text) <= room) ?? '';

function drawFar(c, left, top, height) {
	if (!FAR.count)
		layoutFar();
	const bins = farBins(top, height), x0 = GUTTER() - left + 14, wide = Math.max(240, Math.min(PLACE.width, scroller.clientWidth) - GUTTER() - 40);
	const most = name => Math.max(...bins.map(bin => bin[name]), 0), again = Math.max(most('again'), most('bad'), 1);
	const rate = most('rate') || 1, latency = most('most') || 1, still = Math.max(...bins.map(bin => bin.still?.ns ?? 0), 1);
	const total = name => countText(FAR[name][FAR[name].length - 1]).trim();
	const tracks = [{ at: 0, size: .3, titles: ['rate: up to ' + countText(rate) + '/s, ' + countText(most('bytes') * 8) + 'bit/s', 'up to ' + countText(rate) + '/s', 'rate'] },
		{ at: .33, size: .25, titles: [': mean, longest ' + timeText(Math.round(latency)), ': up to ' + timeText(Math.round(latency)), ''].map(text =>
			(hasLatencies() ? 'post to completion' : 'sent to ACK') + text).concat('latency') },
		{ at: .61, size: .13, titles: ['sent again ' + total('again') + ', other marks ' + total('bad'), 'sent again ' + total('again'), 'again'] },
		{ at: .77, size: .23, titles: ['nothing moved: ' + (still > 1 ? 'up to ' + timeText(still) : 'never for long'), 'stalls'] }];
	const [flow, waits, wrong, pause] = tracks.map(track => ({ x: x0 + wide * track.at, size: wide * track.size }));
	const bar = (x, y, size, colour, alpha) => {
		c.globalAlpha = alpha;
		c.fillStyle = colour;
		c.fillRect(x, y, Math.max(size, .6), FAR_BIN - .6);
	};
	c.globalAlpha = .93;	// the lifelines mean nothing here
	c.fillStyle = theme.paper;
	c.fillRect(x0 - 14, 0, wide + 40, height);
	for (const bin of bins) {
		bar(flow.x, bin.y, flow.size * bin.rate / rate, theme.send, .75);
		if (bin.most) {
			bar(waits.x, bin.y, waits.size * bin.most / latency, theme.accent, .28);
			bar(waits.x, bin.y, waits.size * bin.mean / latency, theme.accent, .9);
		}
		if (bin.again)
			bar(wrong.x, bin.y, Math.max(4, wrong.size * bin.again / again), theme.bad, .9);
		if (bin.bad)
			bar(wrong.x, bin.y, Math.max(4, wrong.size * bin.bad / again), theme.rnr, .7);
		if (bin.still)
			bar(pause.x, bin.y, Math.max(3, pause.size * bin.still.ns / still), gapWords(bin.still)[1], .6);
	}
	c.globalAlpha = 1;
	c.font = SMALL;
	c.textAlign = 'left';
	c.textBaseline = 'middle';
	const placed = [8];
	for (const bin of bins.filter(one => one.still).sort((a, b) => b.still.ns - a.still.ns).slice(0, FAR_WORDS)) {
		if (placed.some(y => Math.abs(y - bin.y) < 14))
			continue;
		placed.push(bin.y);
		const [words, colour] = gapWords(bin.still);
		halo(c, roomyWords(c, [timeText(bin.still.ns) + ' ' + words, timeText(bin.still.ns)], pause.size - 8), pause.x + 6, bin.y + 1, colour);
	}
	tracks.forEach((track, index) => {
		const room = wide * ((tracks[index + 1]?.at ?? 1) - track.at) - 10;
		c.fillStyle = theme.paper;
		c.fillRect(x0 + wide * track.at - 2, 0, room + 6, 18);
		c.fillStyle = theme.soft;
		c.fillText(roomyWords(c, track.titles, room), x0 + wide * track.at, 9);
	});
}
