// Uploads the files that were chosen, one after the other, to the directory that is shown.
"use strict";

(() => {
  const input = document.querySelector("input[data-upload]");
  const words = document.querySelector("output[data-upload-words]");
  document.querySelector("[data-upload-part]").hidden = false;

  // The server says what is wrong in words.
  async function reason(answer) {
    try {
      return (await answer.json()).message;
    } catch {
      return "the server answered " + answer.status;
    }
  }

  async function put(file) {
    const address = input.dataset.upload + "/" + encodeURIComponent(file.name);
    const headers = { "content-type": file.type || "application/octet-stream" };
    const answer = await fetch(address, { method: "PUT", body: file, headers });
    if (!answer.ok) throw new Error(await reason(answer));
  }

  input.addEventListener("change", async () => {
    input.disabled = true;
    for (const file of input.files) {
      words.textContent = "Uploading " + file.name + " …";
      try {
        await put(file);
      } catch (error) {
        words.textContent = file.name + " was not stored: " + error.message;
        input.disabled = false;
        return;
      }
    }
    location.reload();
  });
})();
