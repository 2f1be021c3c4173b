/*
 * script.js - draws the page from its figures: tables, notices, and one cut-in of each trace.
 *
 * What comes from the files goes in as text and as values of attributes, never as markup, so no
 * file can bring a script into the page. The plots alone are markup, which gnuplot wrote.
 */
'use strict';

const get = (root, path) => path.split('.').reduce((at, key) => at?.[key], root);
const number = value => typeof value === 'number' ? value : 0;
const isObject = value => value !== null && typeof value === 'object' && !Array.isArray(value);

function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes))
        node.setAttribute(name, value);
    node.append(...children);
    return node;
}
const html = (name, attributes, ...children) =>
    fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) =>
    fill(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);
const show = (...nodes) => document.body.append(...nodes);

/* ---- tables ---- */

/* As C rounds: what lies in the middle goes to the even digit. */
function rounded(value, decimals) {
    const exact = value.toFixed(40), cut = exact.length - 40 + decimals;
    const down = exact.slice(0, cut).replace(/\.$/, '');
    const middle = /^50*$/.test(exact.slice(cut));

    return middle && '02468'.includes(down.at(-1)) ? down : value.toFixed(decimals);
}

/* A cell shows a rounded figure and carries the whole one. */
const cell = (value, decimals) => typeof value === 'number' ?
    html('td', {'data-value': value}, rounded(value, decimals)) : html('td', {}, '–');

/* `rows`: name and object of each; `columns`: heading, path in the object, and decimals. */
function table(caption, what, rows, columns) {
    show(html('table', {}, html('caption', {}, caption), html('tbody', {},
        html('tr', {}, html('th', {}, what), ...columns.map(c => html('th', {}, c[0]))),
        ...rows.map(([name, row]) => html('tr', {}, html('th', {}, name),
            ...columns.map(([, path, decimals]) => cell(get(row, path), decimals)))))));
}

const entries = object => Object.entries(object ?? {});

const tables = {
    latency(root) {
        table('Real-time latency, microseconds', 'mode', entries(root.modes), [
            ['min', 'min_us', 1], ['p50', 'p50_us', 1], ['p90', 'p90_us', 1],
            ['p99', 'p99_us', 1], ['p99.9', 'p999_us', 1], ['max', 'max_us', 1],
            ['samples', 'samples', 0]]);
        table('Added to alone, microseconds', 'mode', entries(root.added_us),
            [['p50', 'p50', 1], ['p99', 'p99', 1]]);
        table('Best effort; solo: without real time', 'mode',
            entries(root.be).filter(([, value]) => isObject(value)),
            [['kernels/s', 'kernels_per_s', 0], ['kernels', 'kernels', 0],
                ['seconds', 'seconds', 1]]);
        if (typeof root.be?.checksum === 'string')
            show(html('p', {}, `Best-effort result: ${root.be.checksum}`));
    },

    /* A run's members are modes of calls; a row is a call of modes. */
    overhead(root) {
        for (const run of root.runs) {
            const calls = new Set(entries(run).map(([, mode]) => mode).filter(isObject)
                .flatMap(Object.keys));
            const of = call => Object.fromEntries(
                entries(run).map(([mode, figures]) => [mode, figures?.[call]]));

            table(`ns per call with ${rounded(number(run?.threads), 0)} thread` +
                `${run?.threads > 1 ? 's' : ''}: bare, and what is added to it`,
                'call', [...calls].map(call => [call, of(call)]), [
                    ['bare p50', 'bare.ns_p50', 0], ['p99', 'bare.ns_p99', 0],
                    ['passed through p50', 'pass_through.added_ns_p50', 0],
                    ['p99', 'pass_through.added_ns_p99', 0],
                    ['inline p50', 'inline.added_ns_p50', 0], ['p99', 'inline.added_ns_p99', 0],
                    ['buffered p50', 'buffered.added_ns_p50', 0],
                    ['p99', 'buffered.added_ns_p99', 0]]);
        }
    },

    disb(root) {
        for (const [name, workload] of entries(root.workloads))
            table(`Workload ${name}: real-time latency in microseconds, requests of all clients, ` +
                'preemption latency', 'mode', entries(workload?.modes), [
                ['mean', 'rt.mean_us', 0], ['p50', 'rt.p50_us', 0], ['p99', 'rt.p99_us', 0],
                ['p99.9', 'rt.p999_us', 0], ['p99 × rt-only', 'rt_vs_alone', 2],
                ['requests/s', 'throughput_per_s', 1],
                ['× rt-only', 'throughput_vs_rt_only', 2],
                ['× streams', 'throughput_vs_streams', 2],
                ['preempt. p50', 'preempt_us.p50', 0], ['p99', 'preempt_us.p99', 0],
                ['samples', 'rt.samples', 0], ['unserved', 'rt_unserved', 0]]);
        table('Models', 'model', entries(root.models),
            [['kernels', 'kernels', 0], ['solo us', 'solo_us', 0]]);
    },

    ablation(root) {
        const label = row => `${row?.variant}, ${rounded(number(row?.be_kernel_us), 0)} us`;

        table('Variants, by duration of the best-effort kernels', 'variant',
            [...new Map(root.rows.map(row => [label(row), row]))], [
                ['added p50, us', 'added_us.p50', 1], ['added p99, us', 'added_us.p99', 1],
                ['best effort × native', 'be_throughput_ratio', 2]]);
    },
};

/* ---- results ---- */

const textRows = rows => html('tbody', {}, ...rows.map(([heading, text]) =>
    html('tr', {}, html('th', {}, heading), html('td', {class: 'text'}, text))));

/* What the results say about where they come from; one table per machine that differs. */
function showMachines(results) {
    const rows = [['GPU', 'gpu'], ['driver version', 'driver_version'], ['simulated', 'simulated'],
        ['processor', 'machine.cpu'], ['processors', 'machine.cpus'],
        ['kernel', 'machine.kernel'], ['architecture', 'machine.architecture'],
        ['cutin', 'version']];
    let last;

    for (const {texts} of results) {
        const machine = JSON.stringify(texts.machine);
        if (!machine || machine === last)
            continue;
        if (!last)
            show(html('h2', {}, 'Machine'));
        last = machine;
        show(html('table', {}, textRows(rows.map(([heading, path]) => [heading, get(texts, path)])
            .filter(([, text]) => text !== undefined))));
    }
}

function showPlot(result) {
    const plot = html('div', {class: 'plot'});

    plot.innerHTML = result.plot ?? '';
    show(result.plot ? plot : html('p', {}, result.why));
}

function showResult(result) {
    const config = result.figures.config;
    const notice = text => show(html('p', {class: 'notice'}, text));

    show(html('h2', {}, result.title),
        typeof config?.command === 'string' ?
            html('p', {}, html('code', {}, config.command), ` in ${result.file}`) :
            html('p', {}, result.file));
    if (config?.simulated === true)
        notice('Measured on the simulated GPU: ratios show the mechanism, absolute times are ' +
            'modelled.');
    if (result.figures.interrupted === true)
        notice('The run was interrupted: these figures cover what it had measured.');
    showPlot(result);
    tables[result.kind](result.figures);
    show(html('details', {}, html('summary', {}, 'Configuration'), html('table', {},
        textRows(entries(result.texts).filter(([key]) => key !== 'machine')))));
}

/* ---- one cut-in: a row per track, time to the right ---- */

const WIDTH = 1180, LABEL = 250, ROW = 24, TOP = 44; /* cut_in.c knows the first two */
const MOST_TRACKS = 18, MOST_SLICES = 4000;

/* Rows from top to bottom: who is active, who is held, what the GPU runs (simulated, or timed),
 * who calls. */
const orders = {'cut in': 0, hold: 1, kernel: 2, copy: 2, device: 2};
const orderOf = slice => orders[slice.cat] ?? 3;

function tracksOf(slices) {
    const tracks = new Map();

    /* The kinds that matter first, should there be too many tracks. */
    for (const order of [0, 1, 2, 3])
        for (const slice of slices.filter(s => orderOf(s) === order)) {
            const key = `${slice.pid}/${slice.tid}`;
            if (!tracks.has(key) && tracks.size < MOST_TRACKS)
                tracks.set(key, {order, pid: slice.pid, tid: slice.tid, slices: []});
        }
    for (const slice of slices)
        tracks.get(`${slice.pid}/${slice.tid}`)?.slices.push(slice);
    return [...tracks.values()].sort((a, b) => a.order - b.order || a.pid - b.pid || a.tid - b.tid);
}

function timeline(cutIn) {
    const span = cutIn.to - cutIn.from, tracks = tracksOf(cutIn.slices);
    const bottom = TOP + tracks.length * ROW;
    const text = (x, y, attributes, ...children) => svg('text', {x, y, ...attributes}, ...children);
    const centred = {'text-anchor': 'middle'};
    const x = us => LABEL +
        Math.min(Math.max((us - cutIn.from) / span, 0), 1) * (WIDTH - LABEL - 10);

    const name = (what, pid, tid) => `${cutIn.names.find(n =>
        n.name === what && n.pid === pid && (!tid || n.tid === tid))?.args?.name ?? ''}`;
    /* The simulator's tracks are named after the process that they belong to. */
    const owner = (pid, tid) =>
        Number(/^process (\d+),/.exec(name('thread_name', pid, tid))?.[1] ?? pid);

    function label(track) {
        const {pid, tid} = track, process = name('process_name', pid, 0);
        const whole = owner(pid, tid) !== pid ?
            `${process}: ${name('process_name', owner(pid, tid), 0)}` :
            `${process}, ${name('thread_name', pid, tid) || `thread ${tid}`}`;

        return whole.length > 40 ? `${whole.slice(0, 37)}...` : whole;
    }

    function fillOf(slice) {
        const process = name('process_name', owner(slice.pid, slice.tid), 0);

        return slice.cat === 'hold' ? 'url(#held)' : slice.cat === 'wait' ? '#bbbbbb' :
            process.includes('(rt)') ? '#0072b2' : process.includes('(be') ? '#e69f00' : '#009e73';
    }

    function slice(row, s) {
        const from = x(s.ts), to = x(s.ts + s.dur), fill = fillOf(s);
        const dark = fill === '#0072b2' || fill === '#009e73';

        return [svg('rect', {x: from.toFixed(2), y: TOP + row * ROW + 3,
            width: Math.max(to - from, 0.8).toFixed(2), height: ROW - 6, fill, stroke: '#222',
            'stroke-width': 0.4},
        svg('title', {}, `${s.name}, ${rounded(s.dur, 1)} us from ` +
            `${rounded(s.ts - cutIn.zero, 1)} us on`)),
        ...s.label === undefined ? [] : [text(((from + to) / 2).toFixed(2), TOP + row * ROW + 16,
            {...centred, fill: dark ? '#fff' : '#000'}, s.label)]];
    }

    /* Marks at a round step that gives 5 to 12 of them. */
    function axis() {
        const ten = 10 ** Math.floor(Math.log10(span / 5));
        const step = span / ten > 25 ? ten * 5 : span / ten > 12 ? ten * 2 : ten, marks = [];

        for (let us = Math.ceil((cutIn.from - cutIn.zero) / step) * step;
            us <= cutIn.to - cutIn.zero; us += step) {
            const at = x(cutIn.zero + us).toFixed(2);
            marks.push(svg('line', {x1: at, x2: at, y1: TOP, y2: bottom, stroke: '#ddd'}),
                text(at, bottom + 15, centred, `${Math.round(us * 1000) / 1000}`));
        }
        return [...marks, text((LABEL + WIDTH) / 2, bottom + 32, centred,
            'microseconds from the cut-in')];
    }

    const legend = [['#0072b2', 'real time'], ['#e69f00', 'best effort'], ['url(#held)', 'held'],
        ['#bbbbbb', 'waits for the GPU']].flatMap(([fill, what], i) => [
        svg('rect', {x: LABEL + 150 * i, y: 6, width: 14, height: 12, fill, stroke: '#222',
            'stroke-width': 0.4}),
        text(LABEL + 150 * i + 20, 16, {}, what)]);
    const labels = tracks.flatMap((track, row) => [
        svg('line', {x1: 0, x2: WIDTH, y1: TOP + row * ROW, y2: TOP + row * ROW, stroke: '#ddd'}),
        text(4, TOP + row * ROW + 16, {}, label(track))]);
    const slices = tracks.flatMap((track, row) => track.slices.map(s => [row, s]))
        .slice(0, MOST_SLICES).flatMap(([row, s]) => slice(row, s));
    const zero = x(cutIn.zero).toFixed(2);

    return svg('svg', {class: 'timeline', viewBox: `0 0 ${WIDTH} ${bottom + 40}`, role: 'img',
        'aria-label': 'timeline of one cut-in', 'font-family': 'sans-serif', 'font-size': 12},
    svg('defs', {}, svg('pattern', {id: 'held', width: 6, height: 6,
        patternUnits: 'userSpaceOnUse'},
    svg('rect', {width: 6, height: 6, fill: '#f2f2f2'}),
    svg('path', {d: 'M0 6L6 0', stroke: '#888'}))),
    svg('rect', {width: '100%', height: '100%', fill: '#fff'}),
    ...legend, ...labels, ...axis(), ...slices,
    svg('line', {x1: zero, x2: zero, y1: TOP - 6, y2: bottom, stroke: '#d00', 'stroke-width': 1.5,
        'stroke-dasharray': '5 3'}),
    text(zero, TOP - 10, {...centred, fill: '#d00'}, 'cut in'));
}

function showTrace(trace) {
    show(html('h2', {}, 'One cut-in'), html('p', {}, `From the trace in ${trace.file}.`),
        trace.cut_in ? html('div', {class: 'plot'}, timeline(trace.cut_in)) :
            html('p', {}, 'The trace has no cut-in that held other work.'));
}

/* ---- the page ---- */

const page = JSON.parse(document.getElementById('figures').textContent);

showMachines(page.results);
page.traces.forEach(showTrace);
page.results.forEach(showResult);
if (page.others.length)
    show(html('h2', {}, 'Other files'), html('p', {},
        `Not shown, because they are no results of cutin: ${page.others.join(', ')}.`));
