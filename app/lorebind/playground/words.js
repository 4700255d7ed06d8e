// All words of the page.

const range = (name) => (first, last) => (last && last !== first ? `${name}s ${first}–${last}` : `${name} ${first}`);
const lines = range("line");
const pages = range("page");

export const words = {
  loading: "Loading …",
  again: "Try again",
  copy: "Copy",
  copied: "Copied",
  failed: "This view cannot be shown",
  more: (number) => `and ${number} more`,
  rest: (number) => `Show ${number} more characters`,
  pages: { before: "Previous page", next: "Next page", number: (number) => `Page ${number}` },
  calls: "The same as a call",
  rights: (rights) => `This needs a token with the rights ‘${rights}’.`,
  nav: { label: "Sections", knowledge: "Knowledge", ask: "Ask all", bindings: "Bindings", workflows: "Workflows", health: "Health", home: (name) => `${name}: all knowledge bases` },
  who: { open: "open to this machine", theme: "Switch between light and dark" },
  missing: { title: "There is no such page", text: "The address may be from an earlier version.", back: "All knowledge bases" },
  gone: { title: "The server does not answer", text: "It may be restarting. This page goes on as soon as it answers." },
  signIn: { title: "Sign in", text: "This server wants a token. Whoever runs it creates one with: lorebind token create NAME --rights read", label: "Token", go: "Sign in", wrong: "The server does not know this token." },
  tenant: { title: "Choose a tenant", text: "This token is for several tenants.", label: "Tenant", go: "Continue" },
  tabs: { label: "Parts of the knowledge base", ask: "Ask", documents: "Documents", ingest: "Runs and plan" },
  home: {
    title: "Knowledge bases", about: "Choose one to ask it, to see its documents and to update it.",
    none: "This project declares no knowledge base", noneText: "Declare one under knowledge_bases in lorebind.yaml, and start the server again.",
    empty: "Nothing is ingested yet.", lastRun: (when) => `last run ${when}`,
  },
  kb: {
    empty: "Nothing is ingested yet. Press Ingest to read the sources; then ask.",
    emptyForReaders: "Nothing is ingested yet. This needs a token with the rights ‘write’.",
    others: "Others fill this knowledge base; it can only be searched.",
  },
  ask: {
    title: "Ask", about: "Ask several knowledge bases together, or as a task or an agent would.",
    question: "Question", ask: "Ask", answers: "Write an answer", compares: "Compare two settings", inLink: "Put the question into the link",
    settings: "Settings of the search", second: "The second settings", answer: "Answer", passages: "Passages",
    searching: "Searching …", found: (number, seconds) => `${number} ${number === 1 ? "passage" : "passages"} in ${Math.round(seconds * 1000)} ms`,
    nothing: "No passage was found. Ask with other words, or look with ‘Why not?’ where a document was lost.",
    stop: "Stop", stopped: "You stopped the answer.", newTalk: "Begin a new conversation", fresh: "The next question begins a new conversation.",
    opens: (marker, label) => `Open passage ${marker}, ${label}`, unknown: "This marker belongs to no passage.",
    noCitations: "no citations", dropped: (number) => `${number} passages did not fit the token budget`, unknowns: (markers) => `unknown markers: ${markers}`,
    usage: (usage) => `${usage.prompt_tokens} tokens in, ${usage.completion_tokens} out`,
  },
  prompt: {
    show: "The prompt as the model gets it",
    tokens: (tokens, tokenizer, exact) => `${tokens} tokens (${tokenizer}, ${exact ? "exact" : "estimated"})`,
    dropped: ({ uri, score, reason }) => `Left out: ${uri}, score ${score}: ${reason}`,
  },
  verdict: {
    hit: "Hit.", weak: "Weak.", miss: "Miss.",
    hitText: "The passages probably answer the question.", weakText: "The passages may not answer the question.", missText: "Nothing was found that answers the question.",
    level: (best, weak) => `The best passage has ${best}; answers usually have at least ${weak}.`,
  },
  compare: {
    side: ["First settings", "Second settings"], only: "only here", same: "same rank", up: (ranks) => `↑ ${ranks}`, down: (ranks) => `↓ ${ranks}`,
    settings: (values) => Object.entries(values).filter(([, value]) => !Array.isArray(value) || value.length).map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ") || "as declared",
    gone: (uris) => `Only on the other side: ${uris.join(", ")}`,
  },
  why: {
    title: "Why not?", document: "Document that you expected", ask: "Look", stage: "Stage", rank: "Rank", score: "Score", kept: "Kept",
    of: (rank, all) => `${rank} of ${all}`, yes: "yes", no: "no", lost: "lost here",
  },
  passage: { score: "Relevance, from 0 to 1", text: (number) => `Text of passage ${number}`, terms: "Words that matched", related: "related" },
  place: { page: pages, scanned: (place) => `${place} (scanned)`, time: (start, end) => `${start}–${end}`, lines },
  signals: {
    dense: "Similarity of meaning: the cosine of the vectors", lexical: "Words that question and passage share (BM25)", terms: "Related words",
    document: "Words of the whole document", fused: "All signals together; it decides the order", rerank: "The score of the reranker",
  },
  settings: {
    declared: "as declared", all: "all", none: "none",
    strategy: "Strategy", top_k: "Passages at most", min_score: "Minimum score", knowledge_bases: "Knowledge base",
    workflow: "Workflow", task: "Task", agent: "Agent", filters: "Filters on metadata", addFilter: "Add a filter", remove: "Remove",
    key: "Field", operator: "Condition", value: "Value",
  },
  operators: { $eq: "is", $ne: "is not", $gt: "is more than", $gte: "is at least", $lt: "is less than", $lte: "is at most", $in: "is one of", $nin: "is none of", $newer_than: "is newer than", $older_than: "is older than" },
  ingest: {
    go: "Ingest", run: "Run", running: "running", allow: "Remove these documents", plan: "Plan", planning: "Reading the sources …", planned: "What an ingest would do",
    about: "An ingest reads the sources and changes only what has changed there.", failed: "Try failed documents again",
    rollback: "Go back to the index before", rolledBack: "The index before the last rebuild is in use again.",
    read: "Read", embed: "Embed", documents: "documents", chunks: "passages", rate: (number) => `${number} a second`, left: (time) => `${time} left`, took: (time) => `in ${time}`,
    documentsOf: "Documents", chunksOf: "Passages", none: "no change", skipped: (files) => `Skipped: ${files}`, setting: "to read them, set",
    costs: (texts, tokens, exact, cost) => `To embed: ${texts} texts, ${exact ? "" : "about "}${tokens} tokens${typeof cost === "number" ? `, ${cost} USD` : ""}.`,
    history: "Runs", noRuns: "No runs yet.", details: "Documents and files", elsewhere: "started elsewhere", heads: ["Started", "What", "Status", "Result"],
    progress: (read, documents, embedded, chunks) => `${read} of ${documents} documents read, ${embedded} of ${chunks} passages embedded`,
  },
  documents: {
    states: [["", "any"], ["ready", "ready"], ["pending", "pending"], ["failed", "failed"], ["skipped", "skipped"]], state: "State", search: "Name or title", format: "Format", heads: ["Document", "State", "Passages", "Actions"],
    none: "No documents", noMatch: "No document matches.", noneText: "Press Ingest to read the sources, or add a text or files.",
    skippedHeads: ["File or folder", "Reason", "Setting of the source that reads it"], noSkipped: "The last ingest skipped no files.",
    retry: "Try again", delete: "Delete", deleted: "Deleted.",
    exclude: "Exclude from searches", include: "Include again", excluded: "excluded", changed: "Changed.", of: (action, uri) => `${action}: ${uri}`,
    textless: (parts) => `without text: ${parts}`, pack: "Pack to a file", add: "Add documents", name: "Name", text: "Text", addText: "Add this text", adding: "Adding …",
    added: (number) => (number === 1 ? "Added." : `${number} files were added.`), files: "Files", drop: "Choose files, or drop them here.",
  },
  source: {
    text: "Text of the document", legend: "A line at the left marks text in a passage, in another colour where passages overlap. Hatched lines are in no passage.",
    range: (first, last, all) => `Lines ${first} to ${last} of ${all}${first > 1 || last < all ? "; scroll for more" : ""}`, jump: "Line", go: "Go to line", gap: "No passage holds this line.",
    passage: "Passage", cited: "The cited passage", first: "The first passage here", previous: "Before it:", next: "After it:",
    context: "Embedded with it", nothing: "nothing", embedded: "Its text", gaps: "Shown lines in no passage",
    picture: "Page as a picture", drawing: "Drawing the page …", pictureOf: (page, title) => `Page ${page} of ${title}`,
    marked: (boxes) => (boxes ? "The words of this passage are marked." : "The words of this passage cannot be located here."), enlarge: "Enlarge", large: "Enlarged page", close: "Close",
  },
  bindings: {
    title: "Bindings", about: "The knowledge that a place has, and where each setting comes from.", project: "the project", workflow: "Workflow", task: "Task", agent: "Agent",
    all: "Show defaults too", heads: ["Setting", "Value", "Set by", "Where", "Overrode"], none: "Nothing is bound here", noneText: "Bind knowledge with knowledge: [{ id: … }] in the project, a workflow, a task or an agent.",
    unbound: (where) => `knowledge: [] at ${where} removes what outer scopes bind.`, defaults: "All settings are defaults.",
  },
  workflows: {
    title: "Workflows", about: "Run them, answer their questions, and look at earlier runs.", none: "This project has no workflow", noneText: "Declare one in a file of its own, and name it under workflows or autoload.",
    graph: "Tasks of the workflow", run: "Run", stop: "Stop", stopped: "You stopped the run. It can be resumed.", live: "Run", threads: "Threads", noThreads: "No runs yet.",
    thread: "This thread", question: "The workflow asks", answer: "Answer", send: "Send the answer", output: "Output", replay: "Replay after this", replayAfter: (task) => `Replay after ${task}`,
  },
  health: {
    title: "Health", version: (version) => `Lorebind ${version}`, knowledge: "Knowledge bases", doctor: "What doctor finds", about: "It tries each embedder, database, index and model; chat models answer with one word.", examine: "Examine now", never: "never",
    heads: ["Knowledge base", "Ready", "Not ready", "Passages", "Embedder", "Last run", "Last good run"],
  },
  workers: {
    title: "Workers", heads: ["Worker", "Works on", "Slots", "Busy", "Last seen"], ingests: "requested ingests", texts: "texts",
    silent: (time) => `${time} ago`,
  },
};
