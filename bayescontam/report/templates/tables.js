"use strict";
// Sorts and filters the tables of class "sortable", opens what a link leads to, and marks what is
// wider than its box. Without this script every row is there.
(() => {
  const SORTED = 4, FILTERED = 13; // fewest rows of a table that is sorted, or also filtered
  const collator = new Intl.Collator("en", { numeric: true });
  const counted = new Intl.NumberFormat("en");
  const make = (tag, text, known) => Object.assign(document.createElement(tag), { textContent: text }, known);
  const said = (element) => element.textContent.trim();

  // Leaf headings with the column that each begins; a heading may span several.
  function headings(table) {
    const rows = [...table.tHead.rows], taken = rows.map(() => []), found = [];
    rows.forEach((row, y) => [...row.cells].forEach((cell) => {
      let x = 0;
      while (taken[y][x]) x += 1;
      for (let i = 0; i < cell.rowSpan; i += 1)
        for (let j = 0; j < cell.colSpan; j += 1) taken[y + i][x + j] = cell;
      if (y + cell.rowSpan >= rows.length) {
        const above = y ? said(taken[0][x]) + ", " : "";
        found.push({ cell, column: x, title: above + said(cell) });
      }
    }));
    return found;
  }

  // Rows under a heading of their group get that as a column, which shows once they are mixed.
  function nameGroups(table) {
    const heads = [...table.querySelectorAll("tr.group th")];
    if (!heads.length) return;
    const title = make("th", table.dataset.group, { className: "of" });
    title.dataset.choose = "";
    title.rowSpan = table.tHead.rows.length;
    table.tHead.rows[0].cells[0].after(title);
    heads.forEach((head) => {
      const body = head.closest("tbody");
      head.colSpan += 1;
      [...body.rows].slice(1).forEach((row) => {
        const cell = make("td", "", { className: "of" });
        cell.append(...[...head.childNodes].map((node) => node.cloneNode(true)));
        row.cells[0].after(cell);
      });
    });
  }

  // A number, a text, or null where there is none.
  function key(cell) {
    if (!cell) return null;
    if (cell.dataset.v === undefined) return said(cell) || null;
    return cell.dataset.v === "" ? null : Number(cell.dataset.v);
  }

  function sortedRows(rows, column, direction) {
    const known = rows.map((row) => ({ row, key: key(row.cells[column]) }));
    const order = (a, b) => (typeof a === "number" ? a - b : collator.compare(a, b));
    known.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
      return direction * order(a.key, b.key);
    });
    return known.map((each) => each.row);
  }

  function place(table, state) {
    const { rows, homes, mixed } = state;
    state.box.scrollTop = 0;
    const flat = state.column !== null && homes.size > 1;
    table.classList.toggle("flat", flat);
    if (state.column === null) {
      homes.forEach((mine, body) => body.append(...mine));
      return;
    }
    const target = flat ? mixed : homes.keys().next().value;
    target.append(...sortedRows(rows, state.column, state.direction));
    if (flat) table.append(mixed);
  }

  function mark(state) {
    state.headings.forEach(({ cell, column }) => {
      if (column !== state.column) cell.removeAttribute("aria-sort");
      else cell.setAttribute("aria-sort", state.direction > 0 ? "ascending" : "descending");
    });
  }

  function addButtons(table, state) {
    state.headings.forEach(({ cell, column, title }) => {
      if (!said(cell)) return;
      const button = make("button", "", { type: "button" });
      button.setAttribute("aria-label", "Sort by " + title);
      button.append(...cell.childNodes);
      cell.append(button);
      button.addEventListener("click", () => {
        state.direction = state.column === column ? -state.direction : 1;
        state.column = column;
        place(table, state);
        mark(state);
      });
    });
  }

  function labelled(text, field) {
    const label = make("label", text + " ");
    field.autocomplete = "off";
    label.append(field);
    return label;
  }

  function chooser(state, { column, title }) {
    const values = [...new Set(state.rows.map((row) => said(row.cells[column])))];
    const select = make("select", "");
    select.append(make("option", "all", { value: "" }));
    values.sort(collator.compare).forEach((value, i) => {
      select.append(make("option", value || "(none)", { value: String(i + 1) }));
    });
    const label = labelled(title, select);
    return { field: select, label, keeps: (row) => !select.value || said(row.cells[column]) === values[select.value - 1] };
  }

  function searcher(state) {
    const input = make("input", "", { type: "search", placeholder: "any text" });
    const texts = state.headings.filter(({ cell }) => !cell.classList.contains("n"));
    const known = new Map();
    const text = (row) => {
      if (!known.has(row))
        known.set(row, texts.map(({ column }) => said(row.cells[column])).join("\n").toLowerCase());
      return known.get(row);
    };
    const words = () => input.value.toLowerCase().split(/\s+/).filter(Boolean);
    return { field: input, label: labelled("Filter", input), keeps: (row, wanted) => wanted.every((word) => text(row).includes(word)), words };
  }

  function addFilters(table, state) {
    const search = searcher(state);
    const choices = state.headings.filter(({ cell }) => "choose" in cell.dataset)
      .map((heading) => chooser(state, heading)).filter(({ field }) => field.length > 2);
    const count = make("output", "");
    const reset = make("button", "Reset", { type: "button" });
    const tools = make("div", "", { className: "tools" });
    const of = counted.format(state.rows.length);
    function tally() {
      const wanted = search.words();
      let shown = 0;
      state.rows.forEach((row) => {
        const matching = search.keeps(row, wanted) && choices.every((choice) => choice.keeps(row));
        row.hidden = !matching;
        shown += matching;
      });
      state.homes.forEach((mine, body) => { body.hidden = mine.every((row) => row.hidden); });
      count.textContent = counted.format(shown) + " of " + of + " rows";
    }
    function show() {
      tally();
      state.box.scrollTop = 0;
    }
    reset.addEventListener("click", () => {
      [search, ...choices].forEach(({ field }) => { field.value = ""; });
      state.column = null;
      place(table, state);
      mark(state);
      show();
    });
    search.field.addEventListener("input", show);
    choices.forEach(({ field }) => field.addEventListener("change", show));
    tools.append(search.label, ...choices.map(({ label }) => label), reset, count);
    state.box.before(tools);
    tally(); // scrolls nowhere: that would lay the page out while it is read
  }

  function begin(table) {
    const count = table.querySelectorAll("tbody tr:not(.group)").length;
    if (count < SORTED) return;
    nameGroups(table);
    const homes = new Map();
    [...table.tBodies].forEach((body) => homes.set(body, [...body.rows].filter((row) => !row.matches(".group"))));
    const state = {
      rows: [...homes.values()].flat(), homes, mixed: make("tbody", ""),
      box: table.closest(".scroll") || table,
      headings: headings(table), column: null, direction: 1,
    };
    addButtons(table, state);
    if (count >= FILTERED) addFilters(table, state);
  }

  // Opens every fold around the target of a link.
  function reveal() {
    const target = document.querySelector(":target");
    if (!target) return;
    let fold = target.closest("details:not([open])");
    const closed = Boolean(fold);
    for (; fold; fold = target.closest("details:not([open])")) fold.open = true;
    if (closed) target.scrollIntoView();
  }
  window.addEventListener("hashchange", reveal);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) reveal(); // no change of the address
  });
  reveal();

  const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => {
    target.classList.toggle("wide", target.scrollWidth > target.clientWidth + 1);
  }));
  document.querySelectorAll(".scroll, .frame").forEach((box) => sizes.observe(box));

  document.querySelectorAll("table.sortable").forEach((table) => {
    const fold = table.closest("details:not([open])");
    if (fold) fold.addEventListener("toggle", () => begin(table), { once: true });
    else begin(table);
  });
})();
