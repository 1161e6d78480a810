/**
 * Drawings to try the models with, for a visitor who has no picture at hand.
 */

const begin = (/** @type {string} */ more) => `<svg xmlns="http://www.w3.org/2000/svg" width="480" height="360" viewBox="0 0 480 360">${more}</svg>`;

const TABLE = begin(`
<defs>
 <linearGradient id="wall" x2="0" y2="1"><stop stop-color="#dfe7e3"/><stop offset="1" stop-color="#c3d0cb"/></linearGradient>
 <linearGradient id="wood" x2="0" y2="1"><stop stop-color="#b98855"/><stop offset="1" stop-color="#855a31"/></linearGradient>
 <radialGradient id="red" cx=".35" cy=".3" r=".8"><stop stop-color="#ff8d76"/><stop offset=".5" stop-color="#d2321f"/><stop offset="1" stop-color="#7c120b"/></radialGradient>
 <radialGradient id="orange" cx=".35" cy=".3" r=".8"><stop stop-color="#ffd08a"/><stop offset=".55" stop-color="#f28c1c"/><stop offset="1" stop-color="#a9540a"/></radialGradient>
 <linearGradient id="cup"><stop stop-color="#3f7fb5"/><stop offset=".3" stop-color="#a5d0ef"/><stop offset="1" stop-color="#22557f"/></linearGradient>
 <linearGradient id="yellow" x2="0" y2="1"><stop stop-color="#ffe25e"/><stop offset="1" stop-color="#d9a514"/></linearGradient>
</defs>
<rect width="480" height="360" fill="url(#wall)"/>
<circle cx="96" cy="82" r="50" fill="#4c4038"/><circle cx="96" cy="82" r="43" fill="#fffdf5"/>
<g stroke="#2b2622" stroke-linecap="round"><path d="M96 45v7M96 112v7M59 82h7M126 82h7" stroke-width="4"/><path d="M96 82V58M96 82l19 11" stroke-width="5"/></g>
<path d="M0 222h480v138H0z" fill="url(#wood)"/><path d="M0 222h480v6H0z" fill="#d8a871"/>
<path d="M0 262c120-9 220 7 480-4M0 312c160 9 290-11 480 2" fill="none" stroke="#74491f" stroke-opacity=".4" stroke-width="2"/>
<g fill="#3a2512" fill-opacity=".32"><ellipse cx="146" cy="292" rx="62" ry="12"/><ellipse cx="246" cy="302" rx="58" ry="11"/><ellipse cx="372" cy="284" rx="62" ry="12"/></g>
<circle cx="140" cy="240" r="53" fill="url(#red)"/><path d="M140 196c0-12 4-20 12-26" fill="none" stroke="#5b3a1c" stroke-width="5" stroke-linecap="round"/><path d="M150 180c10-14 24-14 32-8-6 12-18 16-32 8z" fill="#4f8a3a"/>
<circle cx="240" cy="254" r="47" fill="url(#orange)"/><circle cx="240" cy="214" r="3.500" fill="#6f5a1c"/>
<path d="M316 164h98l-8 106c-1 12-14 18-41 18s-40-6-41-18z" fill="url(#cup)"/><path d="M412 186c40-8 44 58-6 58" fill="none" stroke="#2d6697" stroke-width="12"/><ellipse cx="365" cy="164" rx="49" ry="11" fill="#3b2417"/>
<path d="M176 318c36 34 112 30 150-18 4-6 12-2 10 6-26 56-130 66-168 22-4-8 2-16 8-10z" fill="url(#yellow)" stroke="#9c7310" stroke-width="2"/>`);

const STREET = begin(`
<defs>
 <linearGradient id="sky" x2="0" y2="1"><stop stop-color="#5aa2e0"/><stop offset="1" stop-color="#dbeefb"/></linearGradient>
 <linearGradient id="road" x2="0" y2="1"><stop stop-color="#77797d"/><stop offset="1" stop-color="#45474b"/></linearGradient>
 <radialGradient id="leaves" cx=".4" cy=".3" r=".8"><stop stop-color="#8ccb5e"/><stop offset="1" stop-color="#2c6b2a"/></radialGradient>
 <linearGradient id="car" x2="0" y2="1"><stop stop-color="#ee5340"/><stop offset="1" stop-color="#a31d12"/></linearGradient>
</defs>
<rect width="480" height="360" fill="url(#sky)"/><circle cx="410" cy="62" r="32" fill="#fff1a8"/>
<g fill="#fff" fill-opacity=".9"><ellipse cx="116" cy="66" rx="46" ry="16"/><ellipse cx="146" cy="54" rx="32" ry="20"/><ellipse cx="292" cy="92" rx="40" ry="12"/></g>
<path d="M0 196c80-46 160-44 240-14s160 20 240-18v96H0z" fill="#8db78a"/><path d="M0 226h480v44H0z" fill="#5d9a4c"/>
<path d="M60 138h132v102H60z" fill="#f0dcb8"/><path d="M46 142l80-62 80 62z" fill="#9c4a35"/><path d="M112 190h30v50h-30z" fill="#5f4029"/>
<g fill="#a9d4ea" stroke="#6d4b31" stroke-width="4"><path d="M74 164h26v26H74zM154 164h26v26h-26z"/></g><path d="M160 88h16v30h-16z" fill="#7d3b2a"/>
<path d="M352 150h18v96h-18z" fill="#6b4a2d"/><circle cx="361" cy="120" r="52" fill="url(#leaves)"/><circle cx="326" cy="144" r="28" fill="url(#leaves)"/><circle cx="398" cy="146" r="28" fill="url(#leaves)"/>
<path d="M0 262h480v98H0z" fill="url(#road)"/><path d="M0 262h480v8H0z" fill="#c9c6bd"/><path d="M10 326h60M120 326h60M230 326h60M340 326h60M450 326h30" stroke="#f5f1da" stroke-width="6"/>
<ellipse cx="248" cy="318" rx="106" ry="9" fill="#1d1e20" fill-opacity=".5"/>
<path d="M150 296v-24c0-10 8-15 18-16l26-3 26-30c5-6 11-8 19-8h48c9 0 15 3 20 10l20 28 14 3c9 2 14 8 14 17v23z" fill="url(#car)"/>
<path d="M206 252l20-22c3-4 7-5 12-5h14v27zM260 225h26c6 0 10 2 13 7l13 20h-52z" fill="#cfe7f5"/>
<g fill="#232428"><circle cx="198" cy="296" r="22"/><circle cx="310" cy="296" r="22"/></g><g fill="#c9ccd2"><circle cx="198" cy="296" r="10"/><circle cx="310" cy="296" r="10"/></g><path d="M150 272h12v10h-12z" fill="#ffe9a6"/>`);

/** @type {{title: string, name: string, svg: string}[]} */
export const EXAMPLES = [
  { title: "Things on a table", name: "table.svg", svg: TABLE },
  { title: "A street", name: "street.svg", svg: STREET },
];

/** @param {{name: string, svg: string}} example */
export const exampleFile = ({ name, svg }) => new File([svg], name, { type: "image/svg+xml" });
